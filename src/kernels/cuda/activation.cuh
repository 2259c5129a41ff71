#pragma once

namespace headroom::cuda {

/// A division with an error of 2 units in the last place.
__device__ __forceinline__ float over(float x, float y) { return __fdividef(x, y); }

__device__ __forceinline__ float silu(float x) { return over(x, 1.0F + __expf(-x)); }
/// 0.5 x (1 + tanh(u)) = x / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3)
__device__ __forceinline__ float gelu_tanh(float x) {
  const float minus_twice = -1.5957691216057308F * x * fmaf(0.044715F * x, x, 1.0F);
  return over(x, 1.0F + __expf(minus_twice));
}
__device__ __forceinline__ float gelu_erf(float x) { return 0.5F * x * (1.0F + erff(x * 0.7071067811865476F)); }

}  // namespace headroom::cuda
