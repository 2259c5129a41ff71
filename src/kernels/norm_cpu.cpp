// layer_norm:     y = (x - mean) / sqrt(variance + eps)             mean and variance over the innermost axis
// rms_norm:       y = x / sqrt(mean(x^2) + eps) * weight            weight[d]
// norm_modulate:  y = layer_norm(x) * (1 + scale) + shift           scale, shift[b, 1, d] (adaLN, Peebles and Xie 2023)
//
// Shapes   x[..., d] -> y[..., d], rows with innermost stride 1; alignment none.
// Dtypes   x, y f32 or bf16; the vectors beside them the same or f32; f32 arithmetic, one rounding.
// Bytes    x read once and y written once from memory: a row stays in cache for the second and third pass over it.
// FLOPs    6, 4 and 8 an element.
//
// Two passes for mean and variance: the one-pass form E[x^2] - E[x]^2 loses all digits where the mean is large. Sums
// run in f32 for 64 vectors and in double across (sum_row), so the result is as accurate for d = 4 as for d = 16384.

#include <cmath>

#include "kernels/cpu_kernel.hpp"
#include "kernels/norm.hpp"
#include "kernels/parallel.hpp"
#include "kernels/row_loop.hpp"
#include "kernels/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/simd_inl.hpp"

#ifndef HEADROOM_KERNELS_NORM_ROWS
#define HEADROOM_KERNELS_NORM_ROWS
namespace headroom {
namespace {

enum class Norm : std::uint8_t { kLayer, kRms, kModulate };

/// What a norm kernel is bound to. Operands of `loop`: x, weight or scale (x again for layer_norm), shift (likewise),
/// y.
struct NormRows {
  Norm form;
  DType dtype;       ///< of x and y
  DType side_dtype;  ///< of weight, scale and shift
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

struct Same {
  HWY_INLINE Vector operator()(Vector x) const { return x; }
};

struct SquaredDistance {
  Vector center;
  HWY_INLINE Vector operator()(Vector x) const {
    const Vector distance = hn::Sub(x, center);
    return hn::Mul(distance, distance);
  }
};

/// The result from x and what stands beside it: nothing, a weight, or scale and shift.
struct Normalize {
  Vector mean;
  Vector inverse;  ///< 1 / sqrt(variance + eps), or of the mean square
  HWY_INLINE Vector operator()(Vector x) const { return hn::Mul(hn::Sub(x, mean), inverse); }
  HWY_INLINE Vector operator()(Vector x, Vector weight) const { return hn::Mul(hn::Mul(x, inverse), weight); }
  HWY_INLINE Vector operator()(Vector x, Vector scale, Vector shift) const {
    const Vector normal = hn::Mul(hn::Sub(x, mean), inverse);
    return hn::MulAdd(normal, scale, hn::Add(normal, shift));
  }
};

/// `scale` is the weight of rms_norm.
template <Norm kForm, class T, class S>
HWY_INLINE void norm_row(std::int64_t n, double eps, const T* x, const S* scale, const S* shift, T* y) {
  const Float d;
  const double count = static_cast<double>(n);
  const Vector mean = kForm == Norm::kRms ? hn::Zero(d) : hn::Set(d, static_cast<float>(sum_row(n, Same{}, x) / count));
  const double variance = sum_row(n, SquaredDistance{mean}, x) / count;
  const Normalize normalize{mean, hn::Set(d, static_cast<float>(1.0 / std::sqrt(variance + eps)))};
  if constexpr (kForm == Norm::kLayer) map_row(n, normalize, y, x);
  if constexpr (kForm == Norm::kRms) map_row(n, normalize, y, x, scale);
  if constexpr (kForm == Norm::kModulate) map_row(n, normalize, y, x, scale, shift);
}

template <Norm kForm, class T, class S>
void norm_rows_of(const NormRows& bound, std::int64_t begin, std::int64_t end, const void* x, const void* scale,
                  const void* shift, void* y) {
  RowCursor cursor(bound.loop, begin);
  for (std::int64_t row = begin; row < end; ++row, cursor.next()) {
    norm_row<kForm>(cursor.length(), bound.eps, static_cast<const T*>(x) + cursor.offset(0),
                    static_cast<const S*>(scale) + cursor.offset(1), static_cast<const S*>(shift) + cursor.offset(2),
                    static_cast<T*>(y) + cursor.offset(3));
  }
}

template <class T, class S>
HWY_INLINE void norm_rows_typed(const NormRows& bound, std::int64_t begin, std::int64_t end, const void* x,
                                const void* scale, const void* shift, void* y) {
  switch (bound.form) {
    case Norm::kLayer:
      return norm_rows_of<Norm::kLayer, T, S>(bound, begin, end, x, scale, shift, y);
    case Norm::kRms:
      return norm_rows_of<Norm::kRms, T, S>(bound, begin, end, x, scale, shift, y);
    case Norm::kModulate:
      return norm_rows_of<Norm::kModulate, T, S>(bound, begin, end, x, scale, shift, y);
  }
}

/// Rows [begin, end) of bound.loop.
void norm_rows(const NormRows& bound, std::int64_t begin, std::int64_t end, const void* x, const void* scale,
               const void* shift, void* y) {
  if (bound.dtype == DType::kF32) return norm_rows_typed<float, float>(bound, begin, end, x, scale, shift, y);
  if (bound.side_dtype == DType::kF32) return norm_rows_typed<Bf16, float>(bound, begin, end, x, scale, shift, y);
  norm_rows_typed<Bf16, Bf16>(bound, begin, end, x, scale, shift, y);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(norm_rows);

template <Norm kForm>
CpuPlan plan(const CpuBinding& binding) {
  const std::span<const Operand> in = binding.inputs;
  const std::size_t scale = in.size() > 1 ? 1 : 0;
  const std::size_t shift = in.size() > 2 ? 2 : 0;
  const Shape& shape = in[0].type.shape;
  const NormRows bound{.form = kForm,
                       .dtype = in[0].type.dtype,
                       .side_dtype = in[scale].type.dtype,
                       .eps = binding.spec.attributes.get_float("eps"),
                       .loop = rows_of<4>(shape, {in[0].strides, broadcast_strides(in[scale], shape),
                                                  broadcast_strides(in[shift], shape), binding.outputs[0].strides})};
  const int threads = binding.threads;
  return {[=](const LaunchArguments& arguments) {
    const auto& inputs = arguments.inputs;
    parallel_for(threads, bound.loop.rows, grain_of(bound.loop.row_length()),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(norm_rows)
                   (bound, begin, end, inputs[0], inputs[scale], inputs[shift], arguments.outputs[0]);
                 });
  }};
}

CpuKernelTraits norm(std::string_view name, Op op, CpuPlan (*plan)(const CpuBinding&)) {
  return {.name = name, .op = op, .supports = supports_rows, .in_place = true, .plan = plan};
}

}  // namespace

const Kernel& highway_layer_norm() {
  static const CpuKernel kernel(norm("highway.layer_norm", Op::kLayerNorm, plan<Norm::kLayer>));
  return kernel;
}
const Kernel& highway_rms_norm() {
  static const CpuKernel kernel(norm("highway.rms_norm", Op::kRmsNorm, plan<Norm::kRms>));
  return kernel;
}
const Kernel& highway_norm_modulate() {
  static const CpuKernel kernel(norm("highway.norm_modulate", Op::kNormModulate, plan<Norm::kModulate>));
  return kernel;
}

}  // namespace headroom
#endif
