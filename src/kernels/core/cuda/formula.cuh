#pragma once

#include "ir/op_code.hpp"

namespace headroom::cuda {

#define HR_DEVICE_CODE(...) __VA_ARGS__
#include "kernels/core/cuda/math_inl.cuh"
#undef HR_DEVICE_CODE

/// The op's formula in elementwise.def.
template <Op kOp>
__device__ __forceinline__ float formula(float a, float b = 0, float c = 0) {
  constexpr Math m{};
#define HR_ANY(enumerator, name, flops, formula, ...) \
  if constexpr (kOp == Op::enumerator) return formula;
#define HR_COMPARISON(...)
#include "ir/elementwise.def"
}

__device__ __forceinline__ float activate(Activation activation, float x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kGeluTanh:
      return formula<Op::kGeluTanh>(x);
    case Activation::kGeluErf:
      return formula<Op::kGeluErf>(x);
    case Activation::kSilu:
      return formula<Op::kSilu>(x);
    case Activation::kRelu:
      return formula<Op::kRelu>(x);
  }
  return x;
}

}  // namespace headroom::cuda
