#pragma once

// Device code that the kernels share: storage types and their conversions, packs of 16 bytes, rows, sums over
// threads. It does not include NVIDIA's headers for 16-bit floats: these alone would double the compile time of a
// file.

#include <cstdint>

#include "base/tensors/dtype_code.hpp"
#include "kernels/core/cuda/grid_rows.hpp"

namespace headroom::cuda {

struct Bf16 {
  std::uint16_t bits;
};
struct F16 {
  std::uint16_t bits;
};

/// Calls launch(T()) with the type that stores `dtype`.
template <class Launch>
void with_type_of(DType dtype, const Launch& launch) {
  if (dtype == DType::kF32) return launch(float());
  if (dtype == DType::kBF16) return launch(Bf16());
  launch(F16());
}
/// Calls launch(T(), S()) with the storage type of x and that of its other operands, which is T or f32.
template <class Launch>
void with_types_of(DType x, DType side, const Launch& launch) {
  with_type_of(x, [&](auto type) {
    if (side == x) return launch(type, type);
    if constexpr (sizeof(type) < sizeof(float)) launch(type, float());
  });
}

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(Bf16 value) {
  return __uint_as_float(static_cast<std::uint32_t>(value.bits) << 16);
}

__device__ __forceinline__ float to_float(F16 value) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
  return wide;
}

/// Two floats as bf16, rounded to nearest even, the first in the lower half.
__device__ __forceinline__ std::uint32_t pack_bf16(float low, float high) {
  std::uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

/// The same as f16; too large values become infinite.
__device__ __forceinline__ std::uint32_t pack_f16(float low, float high) {
  std::uint32_t packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

template <class T>
__device__ __forceinline__ T from_float(float value);
template <>
__device__ __forceinline__ float from_float<float>(float value) {
  return value;
}
template <>
__device__ __forceinline__ Bf16 from_float<Bf16>(float value) {
  return {static_cast<std::uint16_t>(pack_bf16(value, 0.0F))};
}

template <>
__device__ __forceinline__ F16 from_float<F16>(float value) {
  return {static_cast<std::uint16_t>(pack_f16(value, 0.0F))};
}

/// kWidth neighbouring elements. They are read as they are stored and expanded to floats later, so that many loads
/// can be in flight before the first is used. Packs of 16 bytes (8 bf16 or f16, 4 f32, and 8 f32 that go with 8 of
/// those) need that alignment; single elements and pairs need none.
template <class T, int kWidth>
struct Packs {
  static_assert(kWidth <= 2);
  struct Raw {
    T elements[kWidth];
  };
  static __device__ __forceinline__ Raw read(const T* from) {
    Raw raw;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) raw.elements[i] = from[i];
    return raw;
  }
  static __device__ __forceinline__ void expand(const Raw& raw, float (&to)[kWidth]) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) to[i] = to_float(raw.elements[i]);
  }
  static __device__ __forceinline__ void store(const float (&from)[kWidth], T* to) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) to[i] = from_float<T>(from[i]);
  }
};

template <>
struct Packs<float, 4> {
  using Raw = float4;
  static __device__ __forceinline__ Raw read(const float* from) { return *reinterpret_cast<const float4*>(from); }
  static __device__ __forceinline__ void expand(const Raw& raw, float (&to)[4]) {
    to[0] = raw.x, to[1] = raw.y, to[2] = raw.z, to[3] = raw.w;
  }
  static __device__ __forceinline__ void store(const float (&from)[4], float* to) {
    *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
  }
};

template <>
struct Packs<float, 8> {
  struct Raw {
    float4 low, high;
  };
  static __device__ __forceinline__ Raw read(const float* from) {
    return {reinterpret_cast<const float4*>(from)[0], reinterpret_cast<const float4*>(from)[1]};
  }
  static __device__ __forceinline__ void expand(const Raw& raw, float (&to)[8]) {
    to[0] = raw.low.x, to[1] = raw.low.y, to[2] = raw.low.z, to[3] = raw.low.w;
    to[4] = raw.high.x, to[5] = raw.high.y, to[6] = raw.high.z, to[7] = raw.high.w;
  }
  static __device__ __forceinline__ void store(const float (&from)[8], float* to) {
    reinterpret_cast<float4*>(to)[0] = make_float4(from[0], from[1], from[2], from[3]);
    reinterpret_cast<float4*>(to)[1] = make_float4(from[4], from[5], from[6], from[7]);
  }
};

template <>
struct Packs<Bf16, 8> {
  using Raw = uint4;
  static __device__ __forceinline__ Raw read(const Bf16* from) { return *reinterpret_cast<const uint4*>(from); }
  static __device__ __forceinline__ void expand(const Raw& raw, float (&to)[8]) {
    const std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      to[2 * i] = __uint_as_float(words[i] << 16);
      to[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000U);
    }
  }
  static __device__ __forceinline__ void store(const float (&from)[8], Bf16* to) {
    *reinterpret_cast<uint4*>(to) = make_uint4(pack_bf16(from[0], from[1]), pack_bf16(from[2], from[3]),
                                               pack_bf16(from[4], from[5]), pack_bf16(from[6], from[7]));
  }
};

template <>
struct Packs<F16, 8> {
  using Raw = uint4;
  static __device__ __forceinline__ Raw read(const F16* from) { return *reinterpret_cast<const uint4*>(from); }
  static __device__ __forceinline__ void expand(const Raw& raw, float (&to)[8]) {
    const std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      to[2 * i] = to_float(F16{static_cast<std::uint16_t>(words[i])});
      to[2 * i + 1] = to_float(F16{static_cast<std::uint16_t>(words[i] >> 16)});
    }
  }
  static __device__ __forceinline__ void store(const float (&from)[8], F16* to) {
    *reinterpret_cast<uint4*>(to) = make_uint4(pack_f16(from[0], from[1]), pack_f16(from[2], from[3]),
                                               pack_f16(from[4], from[5]), pack_f16(from[6], from[7]));
  }
};

/// Reads and expands at once.
template <class T, int kWidth>
__device__ __forceinline__ void load(const T* from, float (&to)[kWidth]) {
  Packs<T, kWidth>::expand(Packs<T, kWidth>::read(from), to);
}

/// Elements in 16 bytes.
template <class T>
inline constexpr int kFullPack = 16 / static_cast<int>(sizeof(T));

struct Division {
  std::int64_t quotient;
  std::int64_t remainder;
};
/// Takes numbers that are not negative. 64-bit division takes a hundred instructions, 32-bit division twenty.
__device__ __forceinline__ Division divide(std::int64_t number, std::int64_t divisor) {
  if (((number | divisor) >> 32) == 0) {
    const auto n = static_cast<std::uint32_t>(number);
    const auto d = static_cast<std::uint32_t>(divisor);
    return {n / d, n % d};
  }
  return {number / divisor, number % divisor};
}

/// The offset of row `row` in each operand, in elements.
template <int N>
__device__ __forceinline__ void find_row(const GridRows<N>& grid, std::int64_t row, std::int64_t (&offsets)[N]) {
#pragma unroll
  for (int k = 0; k < N; ++k) offsets[k] = 0;
  for (int axis = grid.rank - 1; axis >= 0; --axis) {
    const Division at = axis == 0 ? Division{0, row} : divide(row, grid.extents[axis]);
#pragma unroll
    for (int k = 0; k < N; ++k) offsets[k] += at.remainder * grid.strides[axis][k];
    row = at.quotient;
  }
}

struct Sum {
  static constexpr float kNeutral = 0.0F;
  static __device__ __forceinline__ float join(float a, float b) { return a + b; }
};
struct Max {
  static constexpr float kNeutral = -__builtin_huge_valf();
  static __device__ __forceinline__ float join(float a, float b) { return fmaxf(a, b); }
};

/// The join of `value` over the lanes of a warp, in all of them.
template <class How>
__device__ __forceinline__ float join_warp(float value) {
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) value = How::join(value, __shfl_xor_sync(0xFFFFFFFFU, value, lane));
  return value;
}

/// The join of `value` over the threads of one row: blockDim.x of them, whole warps, in a block of blockDim.y rows;
/// every thread of the block must call it. All threads of the row get the same result.
template <class How>
__device__ __forceinline__ float join_row(float value) {
  __shared__ float partial[32];  // one a warp of the block
  value = join_warp<How>(value);
  const int warps = static_cast<int>(blockDim.x) / 32;
  if (warps == 1) return value;
  const int first = static_cast<int>(threadIdx.y) * warps;
  __syncthreads();  // the partials of the call before have been read
  if (threadIdx.x % 32 == 0) partial[first + static_cast<int>(threadIdx.x) / 32] = value;
  __syncthreads();
  value = How::kNeutral;
  for (int warp = 0; warp < warps; ++warp) value = How::join(value, partial[first + warp]);
  return value;
}

}  // namespace headroom::cuda
