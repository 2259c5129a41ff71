#pragma once

#include "kernels/core/cuda/device.cuh"

namespace headroom::cuda {

/// Element i of an optional per-channel vector, such as a bias or the weight of a norm, stored as T or in f32;
/// `otherwise` if there is none.
template <class T, class Index>
__device__ __forceinline__ float optional_vector_at(const void* from, bool is_f32, Index i, float otherwise = 0) {
  if (from == nullptr) return otherwise;
  return is_f32 ? static_cast<const float*>(from)[i] : to_float(static_cast<const T*>(from)[i]);
}

/// The same for a dtype that is known only at run time: f32, bf16 or f16.
template <class Index>
__device__ __forceinline__ float optional_vector_at(const void* from, DType dtype, Index i, float otherwise) {
  if (from == nullptr) return otherwise;
  if (dtype == DType::kF32) return static_cast<const float*>(from)[i];
  if (dtype == DType::kBF16) return to_float(static_cast<const Bf16*>(from)[i]);
  return to_float(static_cast<const F16*>(from)[i]);
}

}  // namespace headroom::cuda
