// Elementwise functions: y = f(x).
//
// Shapes   any; contiguous axes become one row.
// Dtypes   f32 or bf16 in memory, f32 arithmetic, one rounding; alignment none.
// Bytes    x and y once.
// FLOPs    silu and gelu take about 20 operations an element (activation_inl.hpp), which one core hides under memory
//          access only at 256 bits and wider. In bf16 gelu takes as many cycles as memory: 0.91 of a copy's rate on two
//          cores, up from 0.82, with the CPU's instruction for bf16 and a prefetch distance of 2 KiB; silu 0.95, up
//          from 0.91.

#include "kernels/core/simd_targets.hpp"
#include "kernels/elementwise/elementwise_rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/functions_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/elementwise/elementwise_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

template <class Y>
HWY_INLINE void function_rows_typed(const ElementwiseRows& rows, const RowPart& part) {
  using T = typename Destination<Y>::Element;
  switch (rows.op) {  // values of functions are not halfway between two bf16
#define HR_UNARY(enumerator, ...) \
  case Op::enumerator:            \
    return rows_of<Op::enumerator, 1, Ties::kAway, T, Y>(rows, part);
#define HR_ANY(...)
#include "ir/elementwise.def"
    default:
      return;  // the kernel of an op is bound to that
  }
}

void function_rows(const ElementwiseRows& rows, const RowPart& part) {
  HR_TAKE_FLOAT_LOOPS(rows.dtype == DType::kF32, function_rows(rows, part));
  with_destination(rows.dtype, part.past_cache,
                   [&](auto destination) { function_rows_typed<decltype(destination)>(rows, part); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(function_rows);

KernelPlan plan_function(const KernelBinding& binding) {
  const ElementwiseRows rows = elementwise_rows_of(binding);
  return share_rows(row_work(binding, rows.loop), [rows](const RowPart& part) {
    HWY_DYNAMIC_DISPATCH(function_rows)(rows, part);
  });
}

}  // namespace

std::span<const CpuKernel> highway_functions() {
  static const CpuKernel kernels[] = {
#define HR_ANY(...)
#define HR_UNARY(enumerator, title, ...)       \
  CpuKernel({.name = "highway." #title,        \
             .op = Op::enumerator,             \
             .supports = supports_f32_or_bf16, \
             .in_place = true,                 \
             .plan = plan_function}),
#include "ir/elementwise.def"
  };
  return kernels;
}

}  // namespace headroom
#endif
