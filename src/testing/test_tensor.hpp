#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/interpreter.hpp"
#include "kernels/core/kernel.hpp"
#include "testing/compare.hpp"

namespace headroom {

/// Random elements for input `index` of `spec`, already rounded to its dtype: standard normals, but for operands that
/// stand for something else (indices, positions, times, weights, which are scaled by 1 / sqrt(fan-in)).
[[nodiscard]] OracleTensor random_input(const OpSpec& spec, std::size_t index, std::uint64_t seed);

/// `type` as a comparison lays it out for operand number `index` under `rule`: operands of one launch differ, so that a
/// kernel that takes one operand's strides for another's is found out.
[[nodiscard]] Operand place_for_test(const TensorType& type, const StrideRule& rule, TestStrides strides,
                                     std::size_t index);

/// The memory of one operand: guard bytes, elements with the gaps that strides leave, guard bytes; held on the host and
/// on a device. What is no element must stay as it was.
class TestTensor {
 public:
  enum class Role : std::uint8_t { kInput, kOutput };

  /// Everything poisoned: reading a gap or an element that was never written gives NaN where the dtype has one. The
  /// patterns of inputs and outputs differ, so that copying a gap into a gap shows.
  TestTensor(Backend& backend, const Operand& operand, Role role);
  /// `bytes` without structure: a packed weight or scratch, all of it writable.
  TestTensor(Backend& backend, std::size_t bytes);

  void store(const OracleTensor& values);
  void upload(Stream& stream);
  /// Once it is uploaded: on the device all bytes are 0xFF, until the copy that is returned is made.
  [[nodiscard]] LateCopy hold_back(Stream& stream);
  /// Fetches device memory; returns "" or what was written that should not have been.
  [[nodiscard]] std::string download_and_check(Stream& stream, bool elements_may_change);

  /// Where its elements begin on the device.
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
