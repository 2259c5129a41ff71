// Elementwise ops of numbers: y = f(a, b), f(a, b, c) or f(a, value), one element from the same place in each operand.
// functions_cpu.cpp has those of one operand, elementwise_plain_cpu.cpp comparisons and integers.
//
// Shapes   any; operands broadcast. Axes that are contiguous in all operands are merged, so dense operands are one row.
//          A row is contiguous in each operand, or one repeated element (a broadcast innermost axis).
// Dtypes   f32 or bf16 in memory (b of three operands may be f32 with either), f32 arithmetic, one rounding; alignment
//          none.
// Bytes    each operand once.
// FLOPs    1 an element, so memory is the bound. For operands larger than the cache, non-temporal stores and a prefetch
//          4 KiB ahead reach a copy's rate in f32, up from 0.5-0.6.

#include "kernels/core/simd_targets.hpp"
#include "kernels/elementwise/elementwise_rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/elementwise_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/elementwise/elementwise_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

template <class Y>
HWY_INLINE void elementwise_rows_typed(const ElementwiseRows& rows, const RowPart& part) {
  using T = typename Destination<Y>::Element;
  switch (rows.op) {  // sums and products of bf16 are often halfway between two
#define HR_FORM(enumerator, operands) \
  case Op::enumerator:                \
    return rows_of<Op::enumerator, operands, Ties::kToEven, T, Y>(rows, part);
#define HR_UNARY(...)
#define HR_COMPARISON(...)
#define HR_SCALAR(enumerator, ...) HR_FORM(enumerator, 1)
#define HR_RANGE(enumerator, ...) HR_FORM(enumerator, 1)
#define HR_BINARY(enumerator, ...) HR_FORM(enumerator, 2)
#define HR_REAL_BINARY(enumerator, ...) HR_FORM(enumerator, 2)
#define HR_TERNARY(enumerator, ...)                                                                       \
  case Op::enumerator:                                                                                    \
    if (rows.side == DType::kF32) return rows_of<Op::enumerator, 3, Ties::kToEven, float, Y>(rows, part); \
    return rows_of<Op::enumerator, 3, Ties::kToEven, T, Y>(rows, part);
#include "ir/elementwise.def"
#undef HR_FORM
    default:
      return;  // the kernel of an op is bound to that
  }
}

void elementwise_rows(const ElementwiseRows& rows, const RowPart& part) {
  HR_TAKE_FLOAT_LOOPS(rows.dtype == DType::kF32, elementwise_rows(rows, part));
  with_destination(rows.dtype, part.past_cache,
                   [&](auto destination) { elementwise_rows_typed<decltype(destination)>(rows, part); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(elementwise_rows);

KernelPlan plan_elementwise(const KernelBinding& binding) {
  const ElementwiseRows rows = elementwise_rows_of(binding);
  return share_rows(row_work(binding, rows.loop), [rows](const RowPart& part) {
    HWY_DYNAMIC_DISPATCH(elementwise_rows)(rows, part);
  });
}

}  // namespace

std::span<const CpuKernel> highway_elementwise() {
  static const CpuKernel kernels[] = {
#define HR_UNARY(...)
#define HR_COMPARISON(...)
#define HR_ANY(enumerator, title, ...)         \
  CpuKernel({.name = "highway." #title,        \
             .op = Op::enumerator,             \
             .supports = supports_f32_or_bf16, \
             .in_place = true,                 \
             .plan = plan_elementwise}),
#include "ir/elementwise.def"
  };
  return kernels;
}

}  // namespace headroom
#endif
