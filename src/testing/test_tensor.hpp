#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/interpreter.hpp"
#include "kernels/core/kernel.hpp"
#include "testing/compare.hpp"

namespace headroom {

/// `type` with the strides of a comparison for operand number `index` under `rule`. Operands of one launch differ in
/// strides, which exposes a kernel that confuses them.
[[nodiscard]] Operand place_for_test(const TensorType& type, const StrideRule& rule, TestStrides strides,
                                     std::size_t index);

/// The memory of one operand, on the host and on a device: guard bytes, elements with the gaps that strides leave,
/// guard bytes. All bytes outside elements must stay unchanged.
class TestTensor {
 public:
  enum class Role : std::uint8_t { kInput, kOutput };

  /// Poisons everything: reading a gap or an unwritten element gives NaN if the dtype has one. Inputs and outputs
  /// have different patterns, so that a copy of a gap into a gap is detected.
  TestTensor(Backend& backend, const Operand& operand, Role role);
  /// `bytes` without structure: a packed weight or scratch, entirely writable.
  TestTensor(Backend& backend, std::size_t bytes);

  void store(const OracleTensor& values);
  void upload(Stream& stream);
  /// To be called after the upload: fills the device memory with 0xFF until the returned copy is made.
  [[nodiscard]] LateCopy hold_back(Stream& stream);
  /// Fetches device memory; returns "" or a message about bytes that should not have changed.
  [[nodiscard]] std::string download_and_check(Stream& stream, bool elements_may_change);

  /// The device address of the first element.
  [[nodiscard]] DevicePointer device() const noexcept;
  [[nodiscard]] const Operand& operand() const noexcept { return operand_; }
  /// Element `index` in row-major order, as downloaded; integers keep 64 bits.
  [[nodiscard]] double real(std::int64_t index) const;
  [[nodiscard]] std::int64_t integer(std::int64_t index) const;

 private:
  [[nodiscard]] const std::byte* element(std::int64_t index) const;

  Backend& backend_;
  Operand operand_;
  std::vector<std::byte> host_;
  std::vector<std::byte> uploaded_;
  std::vector<bool> is_element_;  ///< for each byte of host_
  Buffer device_;
  Buffer held_back_;
};

/// The coordinates of element `index` in row-major order: "[3, 7]".
[[nodiscard]] std::string coordinates_of(const Shape& shape, std::int64_t index);

}  // namespace headroom
