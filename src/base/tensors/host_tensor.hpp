#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "base/tensors/dtype.hpp"
#include "base/tensors/shape.hpp"

namespace headroom {

/// The dtype of the C++ element type T. Defined only for the types below, so that typed views are checked.
template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::kU8;
};

/// A dense row-major tensor in host memory that owns its elements, for files and as input and output of a session.
/// Zero-filled at construction.
class HostTensor {
 public:
  HostTensor() = default;
  HostTensor(DType dtype, Shape shape)
      : dtype_(dtype), shape_(shape), bytes_(static_cast<std::size_t>(shape.numel()) * size_of(dtype)) {}

  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
  [[nodiscard]] std::int64_t numel() const noexcept { return shape_.numel(); }
  [[nodiscard]] std::span<std::byte> bytes() noexcept { return bytes_; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

  /// The elements as T; T must be the C++ type of the dtype (float for f32, double for f64, ...).
  template <typename T>
  [[nodiscard]] std::span<T> as() {
    HR_CHECK_EQ(dtype_, DTypeOf<T>::value);
    return {reinterpret_cast<T*>(bytes_.data()), static_cast<std::size_t>(numel())};
  }
  template <typename T>
  [[nodiscard]] std::span<const T> as() const {
    HR_CHECK_EQ(dtype_, DTypeOf<T>::value);
    return {reinterpret_cast<const T*>(bytes_.data()), static_cast<std::size_t>(numel())};
  }
  /// Element `index` in row-major order, widened to double.
  [[nodiscard]] double at(std::int64_t index) const {
    return load_as_double(bytes_.data() + static_cast<std::size_t>(index) * size_of(dtype_), dtype_);
  }
  void set(std::int64_t index, double value) {
    store_from_double(bytes_.data() + static_cast<std::size_t>(index) * size_of(dtype_), dtype_, value);
  }

 private:
  DType dtype_ = DType::kF32;
  Shape shape_{0};
  std::vector<std::byte> bytes_;
};

/// `tensor` converted to `dtype`, element by element, rounding to nearest even.
[[nodiscard]] HostTensor convert(const HostTensor& tensor, DType dtype);

/// ||actual - expected||_2 / ||expected||_2 over all elements, for any dtypes. 0 if no element differs, infinite if
/// only `expected` is zero, NaN if there is a NaN. Throws Error if the shapes differ.
[[nodiscard]] double relative_l2(const HostTensor& actual, const HostTensor& expected);

}  // namespace headroom
