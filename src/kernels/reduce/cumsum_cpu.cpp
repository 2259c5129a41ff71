// cumsum: y[..., i] = x[..., 0] + ... + x[..., i]
//
// Shapes   x[..., n] -> y[..., n], rows with innermost stride 1; alignment none.
// Dtypes   f32 or bf16 in memory; f32 arithmetic within a vector; the sum of earlier vectors is in double, so that the
//          error does not grow with n.
// Bytes    x read and y written once.
// FLOPs    1 an element by definition, log2(lanes) + 1 here: each lane adds the lane 1, 2, 4, ... before it. Successive
//          vectors depend on each other by one addition alone, so 16 lanes take 4 cycles or more; sequential sums would
//          take 64.

#include "kernels/core/cpu_kernel.hpp"
#include "kernels/core/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce/cumsum_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/core/simd_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

/// Lane i - kStep of v in lane i, 0 in the first ones.
template <std::int64_t kStep>
HWY_INLINE Vector moved_up(Vector v) {
  const Float d;
  const hn::RebindToSigned<Float> di;
  const auto from = hn::Sub(hn::Iota(di, 0), hn::Set(di, static_cast<std::int32_t>(kStep)));
  const auto wrapped = hn::And(from, hn::Set(di, static_cast<std::int32_t>(lanes() - 1)));
  return hn::IfThenZeroElse(hn::FirstN(d, kStep), hn::TableLookupLanes(v, hn::IndicesFromVec(d, wrapped)));
}

/// v[0] + ... + v[i] in lane i.
template <std::int64_t kStep = 1>
HWY_INLINE Vector sums_of_lanes(Vector v) {
  if constexpr (kStep >= lanes())
    return v;
  else
    return sums_of_lanes<2 * kStep>(hn::Add(v, moved_up<kStep>(v)));
}

/// y is T* or PastCache<T> and may be x.
template <class T, class Y>
HWY_INLINE void cumsum_row(std::int64_t n, const T* x, Y y) {
  double before = 0;
  for (std::int64_t i = 0; i < n; i += lanes()) {
    const std::int64_t count = HWY_MIN(lanes(), n - i);
    if constexpr (Destination<Y>::kPastCache) prefetch_ahead(x + i);
    const Vector sums = sums_of_lanes(load(x + i, count));  // lanes beyond the row are 0
    store(hn::Add(sums, hn::Set(Float(), static_cast<float>(before))), y + i, count);
    before += static_cast<double>(hn::ExtractLane(sums, static_cast<std::size_t>(lanes() - 1)));
  }
}

/// Operands x, y.
void cumsum_rows(DType dtype, const RowLoop<2>& loop, const RowPart& part) {
  HR_TAKE_FLOAT_LOOPS(dtype == DType::kF32, cumsum_rows(dtype, loop, part));
  with_destination(dtype, part.past_cache, [&](auto destination) {
    using Y = decltype(destination);
    RowCursor cursor(loop, part.begin);
    for (std::int64_t row = part.begin; row < part.end; ++row, cursor.next())
      cumsum_row(loop.inner.extent, part.input<typename Destination<Y>::Element>(0) + cursor.offset(0),
                 Destination<Y>::at(part.output(0)) + cursor.offset(1));
    finish_writes<Y>();
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(cumsum_rows);

KernelPlan plan_cumsum(const KernelBinding& binding) {
  const Operand &x = binding.inputs[0], &y = binding.outputs[0];
  const auto loop = rows_of<2>(x.type.shape, {x.strides, y.strides});
  return share_rows(row_work(binding, loop), [loop, dtype = x.type.dtype](const RowPart& part) {
    HWY_DYNAMIC_DISPATCH(cumsum_rows)(dtype, loop, part);
  });
}

}  // namespace

const Kernel& highway_cumsum() {
  static const CpuKernel kernel(
      {.name = "highway.cumsum", .op = Op::kCumsum, .supports = supports_rows, .in_place = true, .plan = plan_cumsum});
  return kernel;
}

}  // namespace headroom
#endif
