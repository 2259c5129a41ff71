#pragma once

#include "ir/op_code.hpp"

namespace headroom::cuda {

/// What formulas are made of. A division has an error of 2 units in the last place.
struct Math {
  static __device__ __forceinline__ float fma(float a, float b, float c) { return fmaf(a, b, c); }
  static __device__ __forceinline__ float positive(float a) { return a < 0.0F ? 0.0F : a; }
  static __device__ __forceinline__ float swish(float a, double /*tail*/, double c, double d) {
    const float factor = fmaf(static_cast<float>(d) * a, a, static_cast<float>(c));
    return __fdividef(a, 1.0F + __expf(-a * (d == 0 ? static_cast<float>(c) : factor)));
  }
  static __device__ __forceinline__ float normal(float a) { return 0.5F * a * (1.0F + erff(a * 0.7071067811865476F)); }
};

/// The op's formula in elementwise.def.
template <Op kOp>
__device__ __forceinline__ float formula(float a, float b = 0, float c = 0) {
  constexpr Math m{};
#define HR_ANY(enumerator, name, flops, formula, ...) \
  if constexpr (kOp == Op::enumerator) return formula;
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
  }
  return x;
}

}  // namespace headroom::cuda
