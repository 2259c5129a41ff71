// softmax: y[..., i] = exp(x[..., i] - m) / sum_j exp(x[..., j] - m), m = max_j x[..., j]
//
// Shapes   x[..., n] -> y[..., n], rows with innermost stride 1; alignment none.
// Dtypes   f32 or bf16 in memory; f32 arithmetic, the sum in f32 runs added in double.
// Bytes    each element read and written once from memory; the other passes over a row find it in cache.
// FLOPs    about 20 an element, nearly all in the exp; 14 for bf16.
//
// A row keeps its exponentials in f32 scratch until they are divided, so that each result is rounded once. The
// three passes go over three rows at once, so that memory reads and writes at the same rate throughout and no pass
// waits for the maximum or the sum of the one before. With AVX-512, 32 elements in bf16 are 4 + 20 + 5 operations,
// two a cycle: 15 cycles. A copy takes 19 on two cores at 44 GB/s. Share of that copy's rate in bf16 and f32:
//   pass after pass, the next row prefetched in each     0.76  0.84
//   as here                                              0.93  0.95

#include "kernels/core/cpu_kernel.hpp"
#include "kernels/core/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/softmax_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/core/simd_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

/// e^(x - max) for x <= max; 0 below -87, or for bf16 -69, so that no product of it is subnormal.
template <Precision kPrecision>
class Exponential {
 public:
  HWY_INLINE explicit Exponential(float max) : max_(hn::Set(Float(), max)) {}

  HWY_INLINE Vector operator()(Vector x) const {
    const Float d;
    const Vector log2_e = hn::Set(d, kLog2E);
    // Not x log2(e) - max log2(e), which is rounded: for large x = max it differs from 0 by more than an
    // exponential tolerates.
    const Vector distance = hn::Sub(x, max_);
    if constexpr (kPrecision == Precision::kBf16) return exp2_or_zero_for_bf16(hn::Mul(distance, log2_e));
    const Exp2<kPrecision> power(distance, log2_e);
    return hn::IfThenZeroElse(hn::Lt(distance, hn::Set(d, -87.0F)), hn::Mul(power.fraction, power.scale));
  }

 private:
  static constexpr float kLog2E = 1.44269504F;
  Vector max_;
};

/// The results of the passes over a row.
struct SoftmaxRow {
  float largest = 0;
  float factor = 0;  ///< 1 / the sum of its exponentials
};

/// The result of the group at i.
template <class Y>
HWY_INLINE void finish_group(const float* exponentials, std::int64_t i, std::int64_t count, Vector factor, Y y) {
  const Pairs power = load_planes(exponentials + i);
  store_group<Ties::kAway>({hn::Mul(power.even, factor), hn::Mul(power.odd, factor)}, y + i, count);
}

/// Works group by group on three rows. If kFinish, the one before x becomes results y; x becomes exponentials in
/// its place; the largest element of the one after x is found, ignoring NaN if there is a number. `exponentials`
/// holds a row in whole groups; `before` and `row` hold the results so far for the row before and for x. Returns
/// the results for the row after x, and completes `row`.
template <bool kFinish, class Y, class T>
HWY_INLINE SoftmaxRow advance(std::int64_t n, const SoftmaxRow& before, Y y, const T* x, SoftmaxRow& row,
                              const T* after, float* exponentials) {
  const Float d;
  const Exponential<precision_of<T>()> exponential(row.largest);
  const Vector factor = hn::Set(d, before.factor);
  Vector even = hn::Set(d, -std::numeric_limits<float>::infinity());
  Vector odd = even;
  const auto advance_group = [&](std::int64_t i, std::int64_t count) HWY_ATTR {
    if constexpr (Destination<Y>::kPastCache) prefetch_group_ahead(after + i);
    if constexpr (kFinish) finish_group(exponentials, i, count, factor, y);
    const Pairs v = load_group<T>(x + i, count);
    const Pairs power = keep_first_of_group<T>({exponential(v.even), exponential(v.odd)}, count);
    store_planes(power, exponentials + i);
    if (HWY_LIKELY(count == kGroup)) {
      const Pairs next = load_group<T>(after + i, kGroup);
      even = hn::Max(next.even, even);
      odd = hn::Max(next.odd, odd);
    }
    return power;
  };
  row.factor = static_cast<float>(1.0 / sum_groups(n, advance_group));
  const float largest = hn::GetLane(hn::MaxOfLanes(d, hn::Max(even, odd)));
  const std::int64_t rest = n % kGroup;
  return {.largest = rest == 0 ? largest : HWY_MAX(largest, max_row(rest, after + n - rest))};
}

/// Y is T* or PastCache<T>.
template <class Y>
void softmax_rows_of(const RowLoop<2>& loop, const RowPart& part) {
  using T = typename Destination<Y>::Element;
  const std::int64_t n = loop.inner.extent;
  RowCursor cursor(loop, part.begin);
  const auto source = [&] { return part.input<T>(0) + cursor.offset(0); };
  const auto target = [&] { return Destination<Y>::at(part.output(0)) + cursor.offset(1); };
  const T* from = source();
  Y to = target();
  SoftmaxRow before;
  SoftmaxRow row{.largest = max_row(n, from)};
  for (std::int64_t i = part.begin; i < part.end; ++i) {
    const Y to_before = to;
    to = target();
    cursor.next();
    const T* after = i + 1 < part.end ? source() : from;  // a last row is gone through in vain
    const SoftmaxRow found = i == part.begin ? advance<false>(n, before, to, from, row, after, part.scratch)
                                             : advance<true>(n, before, to_before, from, row, after, part.scratch);
    before = row;
    row = found;
    from = after;
  }
  for (std::int64_t i = 0; i < n; i += kGroup)
    finish_group(part.scratch, i, HWY_MIN(kGroup, n - i), hn::Set(Float(), before.factor), to);
  finish_writes<Y>();
}

/// Operands x, y; the scratch holds a row of f32.
void softmax_rows(DType dtype, const RowLoop<2>& loop, const RowPart& part) {
  HR_TAKE_FLOAT_LOOPS(dtype == DType::kF32, softmax_rows(dtype, loop, part));
  with_destination(dtype, part.past_cache,
                   [&](auto destination) { softmax_rows_of<decltype(destination)>(loop, part); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(softmax_rows);

KernelPlan plan_softmax(const KernelBinding& binding) {
  const Operand& x = binding.inputs[0];
  const auto loop = rows_of<2>(x.type.shape, {x.strides, binding.outputs[0].strides});
  RowWork work = row_work(binding, loop);
  work.scratch_elements = whole_groups(loop.inner.extent);
  return share_rows(work, [loop, dtype = x.type.dtype](const RowPart& part) {
    HWY_DYNAMIC_DISPATCH(softmax_rows)(dtype, loop, part);
  });
}

}  // namespace

const Kernel& highway_softmax() {
  static const CpuKernel kernel({.name = "highway.softmax",
                                 .op = Op::kSoftmax,
                                 .supports = supports_rows,
                                 .in_place = true,
                                 .plan = plan_softmax});
  return kernel;
}

}  // namespace headroom
#endif
