// sum, mean, amax, amin over axes: y[kept...] of x[kept..., reduced...], in whatever order these are
//
// Dtypes   f32 or bf16 in memory; f32 sums of up to 64 vectors, added in double. Alignment none. A NaN wins.
// Bytes    x read and y written once; 1 FLOP an element read: bound by memory.
//
// If the contiguous axis is reduced, each result is a reduction of rows. If it is kept, as for a channels-last image
// that is reduced to its channels, results are contiguous: vectors of them accumulate over the reduced positions.
// Threads share results, in the second form in runs of kColumns.

#include <algorithm>
#include <limits>

#include "base/tensors/divide_up.hpp"
#include "kernels/core/cpu_kernel.hpp"
#include "kernels/core/simd_targets.hpp"
#include "kernels/reduce/reduced_axes.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce/reduce_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/core/simd_inl.hpp"

#ifndef HEADROOM_KERNELS_REDUCTION
#define HEADROOM_KERNELS_REDUCTION
namespace headroom {
namespace {

/// The bound parameters of a reduction: one result for each row of `kept` or, with columns, that many contiguous
/// results.
struct Reduction {
  Op op;
  DType dtype;
  double factor;                                ///< of a sum
  RowLoop<2> kept;                              ///< of x and y; rows of one element
  RowLoop<1> reduced;                           ///< of x, from where a result begins
  std::int64_t columns = 0, column_stride = 0;  ///< the stride is y's; of x it is 1

  static constexpr std::int64_t kColumns = 256;
  static constexpr std::int64_t kMostSummed = 64;  ///< one by one in f32
  [[nodiscard]] std::int64_t runs() const { return columns == 0 ? 1 : divide_up(columns, kColumns); }
};

}  // namespace
}  // namespace headroom
#endif

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

struct Sum {
  static constexpr bool kIsSum = true;
  static HWY_INLINE Vector neutral() { return hn::Zero(Float()); }
  static HWY_INLINE Vector join(Vector a, Vector b) { return hn::Add(a, b); }
};
/// The larger, or the smaller where the sign is turned before and after.
template <int kSign>
struct Extreme {
  static constexpr bool kIsSum = false;
  static HWY_INLINE Vector neutral() {
    return hn::Set(Float(), static_cast<float>(-kSign) * std::numeric_limits<float>::infinity());
  }
  static HWY_INLINE Vector join(Vector a, Vector b) {
    const auto is_first = kSign > 0 ? hn::Gt(a, b) : hn::Lt(a, b);
    return hn::IfThenElse(hn::Or(is_first, hn::IsNaN(a)), a, b);
  }
};

template <class How>
HWY_INLINE float join_lanes(Vector v) {
  HWY_ALIGN float lane[lanes()];
  hn::Store(v, Float(), lane);
  Vector joined = hn::Set(Float(), lane[0]);
  for (std::int64_t i = 1; i < lanes(); ++i) joined = How::join(joined, hn::Set(Float(), lane[i]));
  return hn::GetLane(joined);
}

template <class How, class T>
HWY_INLINE Vector join_row(std::int64_t n, const T* x, Vector to) {
  Vector other = How::neutral();
  std::int64_t i = 0;
  for (; i + 2 * lanes() <= n; i += 2 * lanes()) {
    to = How::join(to, load_all(x + i));
    other = How::join(other, load_all(x + i + lanes()));
  }
  for (; i < n; i += lanes()) {
    const std::int64_t count = HWY_MIN(lanes(), n - i);
    const auto valid = hn::FirstN(Float(), static_cast<std::size_t>(count));
    to = How::join(to, hn::IfThenElse(valid, load(x + i, count), How::neutral()));
  }
  return How::join(to, other);
}

struct Same {
  HWY_INLINE Vector operator()(Vector x) const { return x; }
};

/// The result that begins at x.
template <class How, class T>
float result_at(const Reduction& bound, const T* x) {
  RowCursor cursor(bound.reduced, 0);
  double sum = 0;
  Vector joined = How::neutral();
  for (std::int64_t row = 0; row < bound.reduced.rows; ++row, cursor.next()) {
    if constexpr (How::kIsSum)
      sum += sum_row(cursor.length(), Same{}, x + cursor.offset(0));
    else
      joined = join_row<How>(cursor.length(), x + cursor.offset(0), joined);
  }
  return How::kIsSum ? static_cast<float>(sum * bound.factor) : join_lanes<How>(joined);
}

/// `count` results side by side, of which the first begins at x.
template <class How, class T>
void results_at(const Reduction& bound, const T* x, std::int64_t count, float* results) {
  HWY_ALIGN float joined[Reduction::kColumns];
  double sums[Reduction::kColumns] = {};
  const auto reset = [&] {
    for (std::int64_t c = 0; c < Reduction::kColumns; c += lanes()) store_all(How::neutral(), joined + c);
  };
  const auto add_up = [&] {
    for (std::int64_t c = 0; c < count; ++c) sums[c] += static_cast<double>(joined[c]);
    reset();
  };
  reset();
  RowCursor cursor(bound.reduced, 0);
  std::int64_t summed = 0;
  for (std::int64_t row = 0; row < bound.reduced.rows; ++row, cursor.next()) {
    for (std::int64_t c = 0; c < count; c += lanes()) {
      const Vector here = load(x + cursor.offset(0) + c, HWY_MIN(lanes(), count - c));
      store_all(How::join(load_all(joined + c), here), joined + c);
    }
    if (How::kIsSum && ++summed == Reduction::kMostSummed) {
      add_up();
      summed = 0;
    }
  }
  if (How::kIsSum) add_up();
  for (std::int64_t c = 0; c < count; ++c)
    results[c] = How::kIsSum ? static_cast<float>(sums[c] * bound.factor) : joined[c];
}

template <class How, class T>
void reduce_part(const Reduction& bound, const RowPart& part) {
  const std::int64_t runs = bound.runs();
  for (std::int64_t task = part.begin; task < part.end; ++task) {
    const RowCursor place(bound.kept, task / runs);
    const T* const x = part.input<T>(0) + place.offset(0);
    T* const y = part.output<T>(0) + place.offset(1);
    if (bound.columns == 0) {
      store(hn::Set(Float(), result_at<How>(bound, x)), y, 1);
      continue;
    }
    const std::int64_t first = task % runs * Reduction::kColumns;
    const std::int64_t count = HWY_MIN(Reduction::kColumns, bound.columns - first);
    float results[Reduction::kColumns];
    results_at<How>(bound, x + first, count, results);
    for (std::int64_t c = 0; c < count; ++c)
      store(hn::Set(Float(), results[c]), y + (first + c) * bound.column_stride, 1);
  }
}

template <class How>
void reduce_typed(const Reduction& bound, const RowPart& part) {
  if (bound.dtype == DType::kF32) return reduce_part<How, float>(bound, part);
  reduce_part<How, Bf16>(bound, part);
}

void reduce(const Reduction& bound, const RowPart& part) {
  if (bound.op == Op::kAmax) return reduce_typed<Extreme<1>>(bound, part);
  if (bound.op == Op::kAmin) return reduce_typed<Extreme<-1>>(bound, part);
  reduce_typed<Sum>(bound, part);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(reduce);

KernelPlan plan_reduce(const KernelBinding& binding) {
  const Operand& x = binding.inputs[0];
  const ReducedAxes axes = split_axes(binding.spec.attributes[attr::kAxes], x, binding.outputs[0]);
  const std::int64_t count = std::max<std::int64_t>(1, axes.reduced.numel());
  const Reduction bound{.op = binding.spec.op,
                        .dtype = x.type.dtype,
                        .factor = binding.spec.op == Op::kMean ? 1 / static_cast<double>(count) : 1.0,
                        .kept = rows_of<2>(axes.kept, {axes.kept_from, axes.kept_to}),
                        .reduced = longest_rows<1>(axes.reduced, {axes.reduced_from}, x.type.shape.numel()),
                        .columns = axes.columns,
                        .column_stride = axes.column_stride};
  const RowWork work{.threads = binding.threads,
                     .rows = bound.kept.rows * bound.runs(),
                     .elements = count * std::clamp<std::int64_t>(bound.columns, 1, Reduction::kColumns)};
  return share_rows(work, [bound](const RowPart& part) { HWY_DYNAMIC_DISPATCH(reduce)(bound, part); });
}

KernelTraits over_axes(std::string_view name, Op op) {
  return {.name = name, .op = op, .supports = supports_f32_or_bf16, .strides = StrideRule::kAny, .plan = plan_reduce};
}

}  // namespace

std::span<const CpuKernel> highway_reductions() {
  static const CpuKernel kernels[] = {
      CpuKernel(over_axes("highway.sum", Op::kSum)),
      CpuKernel(over_axes("highway.mean", Op::kMean)),
      CpuKernel(over_axes("highway.amax", Op::kAmax)),
      CpuKernel(over_axes("highway.amin", Op::kAmin)),
  };
  return kernels;
}

}  // namespace headroom
#endif
