// layer_norm:     y = (x - mean) / sqrt(variance + eps) * weight + bias    mean and variance over the innermost axis
// rms_norm:       y = x / sqrt(mean(x^2) + eps) * weight            weight[d], bias[d], both optional
// norm_modulate:  y = layer_norm(x) * (1 + scale) + shift           scale, shift[b, 1, d] (adaLN, Peebles and Xie 2023)
//
// Shapes   x[..., d] -> y[..., d], rows with innermost stride 1; alignment none.
// Dtypes   x, y f32 or bf16; the per-channel vectors the same or f32; f32 arithmetic, one rounding.
// Bytes    x read once and y written once from memory: rows stay in cache for the second and third pass over them.
// FLOPs    6, 4 and 8 an element.
//
// Rows are taken several at a time, so that the sum of one completes while the others are read. Their vectors are
// converted to f32 once a sample. Cycles for a row of 192 in bf16, floor 50 (96 vector operations, two a cycle):
//   norm_modulate, each row by itself, sums and roots in double    264
//   with the CPU's own rounding to bf16                            220
//   as here                                                        107
// Operands that do not fit the cache are written past it, and the next rows are prefetched in every pass over
// these, so that memory always has work. Rows less their mean are not kept: with their vectors they would not fit
// the first-level cache at 3072 elements. Relative to a copy on one core: 0.81 in bf16 and 0.87 in f32 for
// norm_modulate, from 0.60 and 0.69 with rows kept and the next prefetched while these are written.
//
// Two passes for mean and variance: the one-pass form E[x^2] - E[x]^2 loses all digits if the mean is large. Sums
// run in f32 for 64 vectors and in double across (sum_row), so the result is as accurate for d = 4 as for d =
// 16384.

#include <algorithm>
#include <array>

#include "kernels/core/cpu_kernel.hpp"
#include "kernels/core/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/norm_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/core/simd_inl.hpp"

#ifndef HEADROOM_KERNELS_NORM_ROWS
#define HEADROOM_KERNELS_NORM_ROWS
namespace headroom {
namespace {

/// The vectors that normalized rows have: none, a factor, or a factor and a term.
enum class Affine : std::uint8_t { kNone, kFactor, kFactorAndTerm };

/// The arguments that a norm kernel is bound to. Operands of `loop`: x, weight or scale, bias or shift (x again if
/// there is none), y.
struct NormRows {
  bool is_centered;  ///< the mean is taken from the rows
  Affine affine;
  float base;        ///< scale is added to it
  DType dtype;       ///< of x and y
  DType side_dtype;  ///< of weight, scale and shift
  double eps;
  std::size_t scale, shift;  ///< the inputs that are these
  RowLoop<4> loop;

  /// Rows that are taken together: as many as fit the first-level cache with their vectors.
  [[nodiscard]] std::int64_t block() const {
    return std::clamp<std::int64_t>(kBlockElements / std::max<std::int64_t>(1, loop.inner.extent), 1, kMaxBlock);
  }

  static constexpr std::int64_t kBlockElements = 3072;
  static constexpr std::int64_t kMaxBlock = 16;
};

}  // namespace
}  // namespace headroom
#endif

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

/// The addresses of one row of each operand.
template <class T, class S, class Y>
struct NormRow {
  const T* x;
  const S* scale;
  const S* shift;
  Y y;
};

/// The factor and the term of a sample's rows in f32: y = normal * factor + term. Computed once for all its rows.
template <Affine kAffine, class T, class S>
class ScaleAndShift {
 public:
  HWY_INLINE ScaleAndShift(const NormRows& bound, float* factor, float* term)
      : n_(bound.loop.inner.extent), base_(bound.base), factor_(factor), term_(term) {}

  HWY_INLINE void take(const S* scale, const S* shift) {
    if (kAffine == Affine::kNone || (scale == scale_ && shift == shift_)) return;
    scale_ = scale;
    shift_ = shift;
    const Vector base = hn::Set(Float(), base_);
    for (std::int64_t i = 0; i < n_; i += kGroup) {
      const std::int64_t count = HWY_MIN(kGroup, n_ - i);
      const Pairs factor = load_group<T>(scale + i, count);
      store_planes({hn::Add(factor.even, base), hn::Add(factor.odd, base)}, factor_ + i);
      if constexpr (kAffine == Affine::kFactorAndTerm) store_planes(load_group<T>(shift + i, count), term_ + i);
    }
  }

  /// The results for the group at i from its normalized values.
  HWY_INLINE Pairs apply(Pairs normal, std::int64_t i) const {
    if constexpr (kAffine == Affine::kNone) return normal;
    const Pairs factor = load_planes(factor_ + i);
    if constexpr (kAffine == Affine::kFactor)
      return {hn::Mul(normal.even, factor.even), hn::Mul(normal.odd, factor.odd)};
    const Pairs term = load_planes(term_ + i);
    return {hn::MulAdd(normal.even, factor.even, term.even), hn::MulAdd(normal.odd, factor.odd, term.odd)};
  }

 private:
  std::int64_t n_;
  float base_;
  float* factor_;
  float* term_;
  const S* scale_ = nullptr;
  const S* shift_ = nullptr;
};

template <class T, class A>
HWY_INLINE float mean_of_row(std::int64_t n, const T* x, A ahead) {
  const auto values = [&](std::int64_t i, std::int64_t valid) HWY_ATTR {
    ahead.ask();
    return load_group<T>(x + i, valid);
  };
  return static_cast<float>(sum_groups(n, values) / static_cast<double>(n));
}

/// A group of a row, less its mean where rows are centered.
template <bool kCentered, class T>
HWY_INLINE Pairs load_centered(const T* x, Vector mean, std::int64_t count) {
  const Pairs v = load_group<T>(x, count);
  if constexpr (!kCentered) return v;
  return {hn::Sub(v.even, mean), hn::Sub(v.odd, mean)};
}

/// The mean of a row's squares, or its variance.
template <bool kCentered, class T, class A>
HWY_INLINE float spread_of_row(std::int64_t n, const T* x, float mean, A ahead) {
  const Vector means = hn::Set(Float(), mean);
  const auto squares = [&](std::int64_t i, std::int64_t valid) HWY_ATTR {
    ahead.ask();
    Pairs v = load_centered<kCentered>(x + i, means, valid);
    if constexpr (kCentered) v = keep_first_of_group<T>(v, valid);
    return Pairs{hn::Mul(v.even, v.even), hn::Mul(v.odd, v.odd)};
  };
  return static_cast<float>(sum_groups(n, squares) / static_cast<double>(n));
}

template <bool kCentered, class T, class Y, class B, class A>
HWY_INLINE void write_row(std::int64_t n, float mean, float inverse, const T* x, const B& affine, Y y, A ahead) {
  const Vector means = hn::Set(Float(), mean);
  const Vector factor = hn::Set(Float(), inverse);
  const auto result = [&](std::int64_t i, std::int64_t count) HWY_ATTR {
    const Pairs v = load_centered<kCentered>(x + i, means, count);
    return affine.apply({hn::Mul(v.even, factor), hn::Mul(v.odd, factor)}, i);
  };
  std::int64_t i = 0;
  for (; i + kGroup <= n; i += kGroup) {
    ahead.ask();
    store_group(result(i, kGroup), y + i, kGroup);
  }
  if (i < n) store_group(result(i, n - i), y + i, n - i);
}

/// Several rows at a time: while one waits for its sum to come together, the others go on, and the square roots of all
/// are taken at once.
template <bool kCentered, Affine kAffine, class S, class Y>
void norm_rows_of(const NormRows& bound, const RowPart& part) {
  using T = typename Destination<Y>::Element;
  constexpr int kPasses = kCentered ? 3 : 2;
  const Float d;
  const std::int64_t n = bound.loop.inner.extent;
  const std::int64_t block = bound.block();
  ScaleAndShift<kAffine, T, S> affine(bound, part.scratch, part.scratch + whole_groups(n));
  const Vector eps = hn::Set(d, static_cast<float>(bound.eps));
  std::array<NormRow<T, S, Y>, NormRows::kMaxBlock> rows;
  std::array<float, NormRows::kMaxBlock> means{};
  std::array<float, NormRows::kMaxBlock> spread{};
  RowCursor cursor(bound.loop, part.begin);
  const auto* x = part.input<T>(0);
  const auto* scale = part.input<S>(bound.scale);
  const auto* shift = part.input<S>(bound.shift);
  for (std::int64_t first = part.begin; first < part.end; first += block) {
    const std::int64_t count = HWY_MIN(block, part.end - first);
    for (std::int64_t k = 0; k < count; ++k, cursor.next()) {
      rows[k] = {x + cursor.offset(0), scale + cursor.offset(1), shift + cursor.offset(2),
                 Destination<Y>::at(part.output(0)) + cursor.offset(3)};
    }
    const T* next = x + cursor.offset(0);
    const auto ahead = [&](std::int64_t k, int pass)
                           HWY_ATTR { return ReadAhead<Y, T, kPasses>(next + (rows[k].x - rows[0].x), n, pass); };
    if constexpr (kCentered)
      for (std::int64_t k = 0; k < count; ++k) means[k] = mean_of_row(n, rows[k].x, ahead(k, kPasses - 3));
    for (std::int64_t k = 0; k < count; ++k)
      spread[k] = spread_of_row<kCentered>(n, rows[k].x, means[k], ahead(k, kPasses - 2));
    for (std::int64_t k = 0; k < count; k += lanes()) {
      const Vector variance = hn::LoadU(d, spread.data() + k);
      hn::StoreU(hn::Div(hn::Set(d, 1.0F), hn::Sqrt(hn::Add(variance, eps))), d, spread.data() + k);
    }
    for (std::int64_t k = 0; k < count; ++k) {
      const auto& row = rows[k];
      affine.take(row.scale, row.shift);
      write_row<kCentered>(n, means[k], spread[k], row.x, affine, row.y, ahead(k, kPasses - 1));
    }
  }
  finish_writes<Y>();
}

template <class S, class Y>
HWY_INLINE void norm_rows_typed(const NormRows& bound, const RowPart& part) {
  if (!bound.is_centered) {
    if (bound.affine == Affine::kNone) return norm_rows_of<false, Affine::kNone, S, Y>(bound, part);
    return norm_rows_of<false, Affine::kFactor, S, Y>(bound, part);
  }
  switch (bound.affine) {
    case Affine::kNone:
      return norm_rows_of<true, Affine::kNone, S, Y>(bound, part);
    case Affine::kFactor:
      return norm_rows_of<true, Affine::kFactor, S, Y>(bound, part);
    case Affine::kFactorAndTerm:
      return norm_rows_of<true, Affine::kFactorAndTerm, S, Y>(bound, part);
  }
}

void norm_rows(const NormRows& bound, const RowPart& part) {
  HR_TAKE_FLOAT_LOOPS(bound.dtype == DType::kF32, norm_rows(bound, part));
  with_destination(bound.dtype, part.past_cache, [&](auto destination) {
    using Y = decltype(destination);
    if (bound.side_dtype == DType::kF32) return norm_rows_typed<float, Y>(bound, part);
    if constexpr (kAllBf16<typename Destination<Y>::Element>) norm_rows_typed<Bf16, Y>(bound, part);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(norm_rows);

KernelPlan plan_norm(const KernelBinding& binding) {
  const std::span<const Operand> in = binding.inputs;
  const std::size_t scale = in.size() > 1 ? 1 : 0;
  const std::size_t shift = in.size() > 2 ? 2 : 0;
  const Shape& shape = in[0].type.shape;
  const Op op = binding.spec.op;
  const NormRows bound{.is_centered = op != Op::kRmsNorm,
                       .affine = shift > 0   ? Affine::kFactorAndTerm
                                 : scale > 0 ? Affine::kFactor
                                             : Affine::kNone,
                       .base = op == Op::kNormModulate ? 1.0F : 0.0F,
                       .dtype = in[0].type.dtype,
                       .side_dtype = in[scale].type.dtype,
                       .eps = binding.spec.attributes[attr::kEps],
                       .scale = scale,
                       .shift = shift,
                       .loop = rows_of<4>(shape, {in[0].strides, broadcast_strides(in[scale], shape),
                                                  broadcast_strides(in[shift], shape), binding.outputs[0].strides})};
  RowWork work = row_work(binding, bound.loop);
  work.scratch_elements = 2 * whole_groups(bound.loop.inner.extent);  // the vectors of all rows
  return share_rows(work, [bound](const RowPart& part) { HWY_DYNAMIC_DISPATCH(norm_rows)(bound, part); });
}

KernelTraits norm(std::string_view name, Op op) {
  return {.name = name, .op = op, .supports = supports_rows, .in_place = true, .plan = plan_norm};
}

}  // namespace

std::span<const CpuKernel> highway_norms() {
  static const CpuKernel kernels[] = {
      CpuKernel(norm("highway.layer_norm", Op::kLayerNorm)),
      CpuKernel(norm("highway.rms_norm", Op::kRmsNorm)),
      CpuKernel(norm("highway.norm_modulate", Op::kNormModulate)),
  };
  return kernels;
}

}  // namespace headroom
#endif
