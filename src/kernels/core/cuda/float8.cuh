#pragma once

#include "kernels/core/cuda/device.cuh"

namespace headroom::cuda {

/// Largest magnitude of E4M3 (OCP 8-bit floating point specification 1.0, section 5).
inline constexpr float kLargestF8 = 448.0F;
/// Of quantized integers, which are symmetric.
inline constexpr float kLargestI8 = 127.0F;

/// Two finite floats as E4M3, rounded to nearest even, magnitudes above 448 as that; the first in the lower byte.
__device__ __forceinline__ std::uint32_t pack_f8(float low, float high) {
#if __CUDA_ARCH__ >= 890
  std::uint16_t packed;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(high), "f"(low));
  return packed;
#else
  const auto encode = [](float value) {
    const std::uint32_t sign = __float_as_uint(value) >> 31 << 7;
    const float magnitude = fminf(fabsf(value), kLargestF8);
    if (magnitude < 0x1p-6F)  // subnormal, in units of 2^-9; 8 of them are the pattern of the least normal
      return sign | static_cast<std::uint32_t>(rintf(magnitude * 0x1p9F));
    std::uint32_t bits = __float_as_uint(magnitude);
    bits += 0x7FFFFU + ((bits >> 20) & 1U);             // half a unit, less one unless the last bit kept is odd
    return sign | ((bits >> 20) - ((127U - 7U) << 3));  // the exponent by the other bias
  };
  return encode(low) | encode(high) << 8;
#endif
}

/// kWidth elements: 8, 4 or 1.
__device__ __forceinline__ void store_f8(const float (&from)[8], std::uint8_t* to) {
  *reinterpret_cast<uint2*>(to) = make_uint2(pack_f8(from[0], from[1]) | pack_f8(from[2], from[3]) << 16,
                                             pack_f8(from[4], from[5]) | pack_f8(from[6], from[7]) << 16);
}
__device__ __forceinline__ void store_f8(const float (&from)[4], std::uint8_t* to) {
  *reinterpret_cast<std::uint32_t*>(to) = pack_f8(from[0], from[1]) | pack_f8(from[2], from[3]) << 16;
}
__device__ __forceinline__ void store_f8(const float (&from)[1], std::uint8_t* to) {
  *to = static_cast<std::uint8_t>(pack_f8(from[0], 0.0F));
}

/// A number of a magnitude up to 127, rounded to nearest even, in the lowest byte: 1.5 * 2^23 plus the number ends in
/// its integer. Conversions run at an eighth of the rate of additions.
__device__ __forceinline__ std::uint32_t integer_bits(float value) {
  return __float_as_uint(__fadd_rn(value, 12582912.0F));
}
/// Four such numbers, the first in the lowest byte.
__device__ __forceinline__ std::uint32_t pack_i8(const float* from) {
  const std::uint32_t low = __byte_perm(integer_bits(from[0]), integer_bits(from[1]), 0x40);
  return __byte_perm(low, __byte_perm(integer_bits(from[2]), integer_bits(from[3]), 0x40), 0x5410);
}
/// kWidth elements: 8, 4 or 1.
__device__ __forceinline__ void store_i8(const float (&from)[8], std::uint8_t* to) {
  *reinterpret_cast<uint2*>(to) = make_uint2(pack_i8(from), pack_i8(from + 4));
}
__device__ __forceinline__ void store_i8(const float (&from)[4], std::uint8_t* to) {
  *reinterpret_cast<std::uint32_t*>(to) = pack_i8(from);
}
__device__ __forceinline__ void store_i8(const float (&from)[1], std::uint8_t* to) {
  *to = static_cast<std::uint8_t>(integer_bits(from[0]));
}

/// The larger of a and |b|; NaN where one is.
__device__ __forceinline__ float largest_magnitude(float a, float b) {
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(fabsf(b)));
  return larger;
}
struct Peak {
  static constexpr float kNeutral = 0.0F;
  static __device__ __forceinline__ float join(float a, float b) { return largest_magnitude(a, b); }
};

/// How a row with the largest magnitude `peak` is quantized: q = x * inverse, x = q * scale. A row of (almost) zeros
/// has scale 1; NaN or infinity makes the scale one and q zeros.
struct RowScale {
  float inverse;
  float scale;
};
__device__ __forceinline__ RowScale scale_of_row(float peak, float largest = kLargestF8) {
  if (peak < 0x1p-100F) return {0.0F, 1.0F};
  const bool is_finite = peak <= 3.402823466e38F;  // not of NaN either
  return {is_finite ? __fdiv_rn(largest, peak) : 0.0F, __fdiv_rn(peak, largest)};
}

/// x * inverse in place, and 0 whatever x is where the row has no finite scale.
template <int kWidth>
__device__ __forceinline__ void quantize(float (&x)[kWidth], const RowScale& row) {
  const bool is_none = row.inverse == 0.0F;  // the same for a whole row
#pragma unroll
  for (int i = 0; i < kWidth; ++i) x[i] = is_none ? 0.0F : __fmul_rn(x[i], row.inverse);
}

}  // namespace headroom::cuda
