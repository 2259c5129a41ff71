// rope:          y[2i]     = x[2i] cos[s, i] - x[2i+1] sin[s, i]        (RoFormer, Su et al. 2021, equation 34)
//                y[2i + 1] = x[2i] sin[s, i] + x[2i+1] cos[s, i]
// qk_norm_rope:  rope(x / sqrt(mean(x^2) + eps) * weight), mean over one head; x[b, s, heads*d] -> y[b, heads, s, d]
//
// Dtypes   x, y f32 or bf16; weight the same or f32; cos, sin[s, d/2] f32; f32 arithmetic, one rounding.
// Strides  rows of d with stride 1; alignment none.
// Bytes    x read and y written once; a row of cos and sin serves all heads of a position (qk_norm_rope), or comes from
// cache. FLOPs    3 (rope) and 7 an element: bound by memory.

#include <cmath>

#include "kernels/cpu_kernel.hpp"
#include "kernels/parallel.hpp"
#include "kernels/rope.hpp"
#include "kernels/row_loop.hpp"
#include "kernels/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rope_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/simd_inl.hpp"

#ifndef HEADROOM_KERNELS_ROPE_ROWS
#define HEADROOM_KERNELS_ROPE_ROWS
namespace headroom {
namespace {

/// What both kernels are bound to. A row of `loop` is one head at one position; its operands are x, cos, sin, y.
struct RopeRows {
  DType dtype;
  DType weight_dtype;
  bool norm;  ///< qk_norm_rope
  double eps;
  RowLoop<4> loop;
};

}  // namespace
}  // namespace headroom
#endif

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

struct Square {
  HWY_INLINE Vector operator()(Vector x) const { return hn::Mul(x, x); }
};

/// `count` pairs of a row. `inverse` is 1 / sqrt(mean(x^2) + eps); it and the weight are for qk_norm_rope only.
template <bool kNorm, class T, class S>
HWY_INLINE void rotate(std::int64_t count, const T* x, const S* weight, const float* cos, const float* sin, T* y,
                       Vector inverse) {
  Pairs value = load_pairs(x, count);
  if constexpr (kNorm) {
    const Pairs scale = load_pairs(weight, count);
    value = {hn::Mul(hn::Mul(value.even, inverse), scale.even), hn::Mul(hn::Mul(value.odd, inverse), scale.odd)};
  }
  const Vector c = load(cos, count);
  const Vector s = load(sin, count);
  const Vector even = hn::NegMulAdd(value.odd, s, hn::Mul(value.even, c));
  const Vector odd = hn::MulAdd(value.even, s, hn::Mul(value.odd, c));
  store_pairs({even, odd}, y, count);
}

template <bool kNorm, class T, class S>
void rope_rows_of(const RopeRows& bound, std::int64_t begin, std::int64_t end, const void* x, const void* weight,
                  const void* cos, const void* sin, void* y) {
  const Float d;
  const S* weights = static_cast<const S*>(weight);
  RowCursor cursor(bound.loop, begin);
  for (std::int64_t row = begin; row < end; ++row, cursor.next()) {
    const std::int64_t pairs = cursor.length() / 2;
    const T* x_row = static_cast<const T*>(x) + cursor.offset(0);
    const float* c = static_cast<const float*>(cos) + cursor.offset(1);
    const float* s = static_cast<const float*>(sin) + cursor.offset(2);
    T* y_row = static_cast<T*>(y) + cursor.offset(3);
    Vector inverse = hn::Zero(d);
    if constexpr (kNorm) {
      const double mean_square = sum_row(2 * pairs, Square{}, x_row) / static_cast<double>(2 * pairs);
      inverse = hn::Set(d, static_cast<float>(1.0 / std::sqrt(mean_square + bound.eps)));
    }
    std::int64_t i = 0;
    for (; i + lanes() <= pairs; i += lanes()) {
      rotate<kNorm>(lanes(), x_row + 2 * i, weights + 2 * i, c + i, s + i, y_row + 2 * i, inverse);
    }
    if (i < pairs) rotate<kNorm>(pairs - i, x_row + 2 * i, weights + 2 * i, c + i, s + i, y_row + 2 * i, inverse);
  }
}

/// Rows [begin, end) of bound.loop. `weight` is read by qk_norm_rope only.
void rope_rows(const RopeRows& bound, std::int64_t begin, std::int64_t end, const void* x, const void* weight,
               const void* cos, const void* sin, void* y) {
  const bool f32 = bound.dtype == DType::kF32;
  if (!bound.norm && f32) return rope_rows_of<false, float, float>(bound, begin, end, x, nullptr, cos, sin, y);
  if (!bound.norm) return rope_rows_of<false, Bf16, Bf16>(bound, begin, end, x, nullptr, cos, sin, y);
  if (f32) return rope_rows_of<true, float, float>(bound, begin, end, x, weight, cos, sin, y);
  if (bound.weight_dtype == DType::kF32)
    return rope_rows_of<true, Bf16, float>(bound, begin, end, x, weight, cos, sin, y);
  rope_rows_of<true, Bf16, Bf16>(bound, begin, end, x, weight, cos, sin, y);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(rope_rows);

CpuPlan plan_rows(const RopeRows& bound, int threads) {
  return {[=](const LaunchArguments& arguments) {
    const auto& in = arguments.inputs;
    const void* weight = bound.norm ? in[1] : nullptr;
    const std::size_t cos = bound.norm ? 2 : 1;
    parallel_for(
        threads, bound.loop.rows, grain_of(bound.loop.row_length()), [&](std::int64_t begin, std::int64_t end, int) {
          HWY_DYNAMIC_DISPATCH(rope_rows)(bound, begin, end, in[0], weight, in[cos], in[cos + 1], arguments.outputs[0]);
        });
  }};
}

CpuPlan plan_rope(const CpuBinding& binding) {
  const std::span<const Operand> in = binding.inputs;
  const Shape& shape = in[0].type.shape;  // [..., s, d]
  Shape cos = shape;
  for (int axis = 0; axis < shape.rank(); ++axis) cos.set(axis, 0);
  Shape sin = cos;
  cos.set(-2, in[1].strides[0]);
  cos.set(-1, 1);
  sin.set(-2, in[2].strides[0]);
  sin.set(-1, 1);
  const RopeRows bound{.dtype = in[0].type.dtype,
                       .weight_dtype = in[0].type.dtype,
                       .norm = false,
                       .eps = 0,
                       .loop = rows_of<4>(shape, {in[0].strides, cos, sin, binding.outputs[0].strides})};
  return plan_rows(bound, binding.threads);
}

CpuPlan plan_qk_norm_rope(const CpuBinding& binding) {
  const std::span<const Operand> in = binding.inputs;
  const Shape& x = in[0].strides;               // of [b, s, heads*d]
  const Shape& y = binding.outputs[0].strides;  // of [b, heads, s, d]
  const Shape& out = binding.outputs[0].type.shape;
  // Rows in x's order: it is read front to back, and the tables' rows stay in cache for all heads.
  const Shape extents{out[0], out[2], out[1], out[3]};  // [b, s, heads, d]
  const RopeRows bound{.dtype = in[0].type.dtype,
                       .weight_dtype = in[1].type.dtype,
                       .norm = true,
                       .eps = binding.spec.attributes.get_float("eps"),
                       .loop = rows_of<4>(extents, {Shape{x[0], x[1], out[3], 1}, Shape{0, in[2].strides[0], 0, 1},
                                                    Shape{0, in[3].strides[0], 0, 1}, Shape{y[0], y[2], y[1], y[3]}})};
  return plan_rows(bound, binding.threads);
}

}  // namespace

const Kernel& highway_rope() {
  static const CpuKernel kernel(
      {.name = "highway.rope", .op = Op::kRope, .supports = supports_rows, .in_place = true, .plan = plan_rope});
  return kernel;
}

const Kernel& highway_qk_norm_rope() {
  static const CpuKernel kernel(
      {.name = "highway.qk_norm_rope", .op = Op::kQkNormRope, .supports = supports_rows, .plan = plan_qk_norm_rope});
  return kernel;
}

}  // namespace headroom
#endif
