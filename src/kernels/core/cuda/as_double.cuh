#pragma once

#include <cstdint>

#include "base/tensors/dtype_code.hpp"

namespace headroom::cuda {

/// The floating-point formats of 16 and 8 bits: how many bits they keep, and how their largest numbers are read.
/// base/tensors/dtype.cpp has the same on the host.
struct SmallFloat {
  int mantissa_bits;
  int bias;
  int max_exponent;
  bool finite_only;  ///< no infinity: the largest pattern is NaN and the one before it a number
  int width;
};

__device__ inline SmallFloat small_float(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return {10, 15, 15, false, 16};
    case DType::kBF16:
      return {7, 127, 127, false, 16};
    case DType::kF8E4M3:
      return {3, 7, 8, true, 8};
    default:
      return {2, 15, 15, false, 8};
  }
}

__device__ inline double decode(const SmallFloat& format, std::uint32_t bits) {
  const double sign = (bits >> (format.width - 1)) != 0 ? -1.0 : 1.0;
  const std::uint32_t ones = (1U << (format.width - 1 - format.mantissa_bits)) - 1U;
  const std::uint32_t mantissa = bits & ((1U << format.mantissa_bits) - 1U);
  const std::uint32_t field = (bits >> format.mantissa_bits) & ones;
  if (field == ones) {
    if (format.finite_only ? mantissa == (1U << format.mantissa_bits) - 1U : mantissa != 0) return nan("");
    if (!format.finite_only) return sign * __longlong_as_double(0x7FF0000000000000LL);
  }
  const int scale = (field == 0 ? 1 : static_cast<int>(field)) - format.bias - format.mantissa_bits;
  return sign * ldexp(static_cast<double>(field == 0 ? mantissa : mantissa + (1U << format.mantissa_bits)), scale);
}

/// Rounded to nearest even; beyond the largest number, that number or infinity.
__device__ inline std::uint32_t encode(const SmallFloat& format, double value) {
  const std::uint32_t sign = signbit(value) ? 1U << (format.width - 1) : 0U;
  const std::uint32_t ones = (1U << (format.width - 1 - format.mantissa_bits)) - 1U;
  const std::uint32_t infinity = ones << format.mantissa_bits;
  if (isnan(value))
    return sign | infinity |
           (format.finite_only ? (1U << format.mantissa_bits) - 1U : 1U << (format.mantissa_bits - 1));
  double magnitude = fabs(value);
  const double least_step = format.finite_only ? 2.0 : 1.0;  // of f8e4m3 the last pattern is taken by NaN
  const double largest = ldexp(2.0 - least_step * ldexp(1.0, -format.mantissa_bits), format.max_exponent);
  if (isinf(magnitude)) magnitude = 2.0 * largest;
  if (magnitude == 0) return sign;
  int exponent = max(ilogb(magnitude), 1 - format.bias);
  const double unit = ldexp(1.0, exponent - format.mantissa_bits);
  magnitude = rint(magnitude / unit) * unit;
  if (magnitude > largest) {
    if (!format.finite_only) return sign | infinity;
    magnitude = largest;
  }
  if (magnitude == 0) return sign;
  exponent = max(ilogb(magnitude), 1 - format.bias);
  const auto mantissa = static_cast<std::uint32_t>(ldexp(magnitude, format.mantissa_bits - exponent));
  const auto field = static_cast<std::uint32_t>(exponent + format.bias - 1);  // the hidden bit adds one to it
  return sign | ((field << format.mantissa_bits) + mantissa);
}

/// The whole number nearest to `value`, within [low, high]; 0 for NaN.
__device__ inline long long saturate(double value, double low, double high, long long least, long long most) {
  if (isnan(value)) return 0;
  const double rounded = rint(value);
  if (rounded <= low) return least;
  return rounded >= high ? most : static_cast<long long>(rounded);
}

/// Element `index` at `data`, exactly but for i64 beyond 2^53.
__device__ inline double load_double(const void* data, DType dtype, std::int64_t index) {
  switch (dtype) {
    case DType::kF64:
      return static_cast<const double*>(data)[index];
    case DType::kF32:
      return static_cast<const float*>(data)[index];
    case DType::kF16:
    case DType::kBF16:
      return decode(small_float(dtype), static_cast<const std::uint16_t*>(data)[index]);
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return decode(small_float(dtype), static_cast<const std::uint8_t*>(data)[index]);
    case DType::kI64:
      return static_cast<double>(static_cast<const std::int64_t*>(data)[index]);
    case DType::kI32:
      return static_cast<const std::int32_t*>(data)[index];
    case DType::kI8:
      return static_cast<const std::int8_t*>(data)[index];
    case DType::kU8:
      return static_cast<const std::uint8_t*>(data)[index];
    case DType::kBool:
      return static_cast<const std::uint8_t*>(data)[index] != 0 ? 1.0 : 0.0;
  }
  return 0;
}

__device__ inline void store_double(void* data, DType dtype, std::int64_t index, double value) {
  constexpr long long kMost = 0x7FFFFFFFFFFFFFFFLL;
  switch (dtype) {
    case DType::kF64:
      static_cast<double*>(data)[index] = value;
      return;
    case DType::kF32:
      static_cast<float*>(data)[index] = static_cast<float>(value);
      return;
    case DType::kF16:
    case DType::kBF16:
      static_cast<std::uint16_t*>(data)[index] = static_cast<std::uint16_t>(encode(small_float(dtype), value));
      return;
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      static_cast<std::uint8_t*>(data)[index] = static_cast<std::uint8_t>(encode(small_float(dtype), value));
      return;
    case DType::kI64:
      static_cast<std::int64_t*>(data)[index] =
          saturate(value, -9223372036854775808.0, 9223372036854775808.0, -kMost - 1, kMost);
      return;
    case DType::kI32:
      static_cast<std::int32_t*>(data)[index] =
          static_cast<std::int32_t>(saturate(value, -2147483648.0, 2147483647.0, -2147483648LL, 2147483647LL));
      return;
    case DType::kI8:
      static_cast<std::int8_t*>(data)[index] = static_cast<std::int8_t>(saturate(value, -128.0, 127.0, -128, 127));
      return;
    case DType::kU8:
      static_cast<std::uint8_t*>(data)[index] = static_cast<std::uint8_t>(saturate(value, 0.0, 255.0, 0, 255));
      return;
    case DType::kBool:
      static_cast<std::uint8_t*>(data)[index] = value != 0 ? 1 : 0;
      return;
  }
}

}  // namespace headroom::cuda
