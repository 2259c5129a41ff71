// Elementwise ops: y = f(a, b) or y = f(x), one element from the same place in each operand.
//
// Shapes   any; a and b broadcast. Axes that lie behind each other in all operands are merged, so dense operands are
//          one row. A row is contiguous in each operand, or one repeated element (a broadcast innermost axis).
// Dtypes   f32 or bf16 in memory, f32 arithmetic, one rounding; alignment none.
// Bytes    each operand once.
// FLOPs    1 an element, so memory is the bound; silu and gelu spend about 20 (see activation_inl.hpp), which one core
//          hides behind memory only at 256 bits and wider. Operands that do not fit the cache: results are written
//          past it and reads asked for 4 KiB ahead, a copy's rate in f32, from 0.5-0.6. In bf16 gelu takes as many
//          cycles as memory: 0.91 of a copy's rate on two cores, from 0.82 with the CPU's instruction for bf16 and
//          reads asked for 2 KiB ahead; silu 0.95, from 0.91.

#include <algorithm>
#include <array>

#include "kernels/cpu_kernel.hpp"
#include "kernels/cpu_kernels.hpp"
#include "kernels/parallel.hpp"
#include "kernels/row_loop.hpp"
#include "kernels/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/activation_inl.hpp"
#include "kernels/simd_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

template <Op kOp, Precision kPrecision>
struct ApplyUnary {
  Vector scalar;
  HWY_INLINE Vector operator()(Vector x) const { return formula<kOp, kPrecision>(x, scalar); }
};

/// Y is T* or PastCache<T>, here and below.
template <Op kOp, Ties kTies, class Y>
void unary_rows_of(const RowLoop<2>& loop, std::int64_t begin, std::int64_t end, float scalar, const void* x, void* y) {
  using T = typename Destination<Y>::Element;
  const ApplyUnary<kOp, precision_of<T>()> function{hn::Set(Float(), scalar)};
  RowCursor cursor(loop, begin);
  for (std::int64_t row = begin; row < end; ++row, cursor.next()) {
    map_row<kTies>(cursor.length(), function, Destination<Y>::at(y) + cursor.offset(1),
                   static_cast<const T*>(x) + cursor.offset(0));
  }
  finish_writes<Y>();
}

template <class Y>
HWY_INLINE void unary_rows_typed(Op op, const RowLoop<2>& loop, std::int64_t begin, std::int64_t end, float scalar,
                                 const void* x, void* y) {
  switch (op) {  // sums and products of bf16 often lie halfway between two; values of functions do not
#define HR_FORM(enumerator, ties) \
  case Op::enumerator:            \
    return unary_rows_of<Op::enumerator, ties, Y>(loop, begin, end, scalar, x, y);
#define HR_UNARY(enumerator, ...) HR_FORM(enumerator, Ties::kAway)
#define HR_SCALAR(enumerator, ...) HR_FORM(enumerator, Ties::kToEven)
#define HR_BINARY(...)
#include "ir/elementwise.def"
#undef HR_FORM
    default:
      return;  // supports() takes the ops of this kernel
  }
}

/// Rows [begin, end) of operands x, y.
void unary_rows(DType dtype, bool past_cache, Op op, const RowLoop<2>& loop, std::int64_t begin, std::int64_t end,
                float scalar, const void* x, void* y) {
  const auto run = [&](auto destination) {
    unary_rows_typed<decltype(destination)>(op, loop, begin, end, scalar, x, y);
  };
  with_destination(dtype, past_cache, run);
}

template <Op kOp>
struct ApplyBinary {
  HWY_INLINE Vector operator()(Vector a, Vector b) const { return formula<kOp, Precision::kF32>(a, b); }
};
/// The forms with one operand the same in the whole row.
template <Op kOp>
struct ApplyToOneA {
  Vector a;
  HWY_INLINE Vector operator()(Vector b) const { return formula<kOp, Precision::kF32>(a, b); }
};
template <Op kOp>
struct ApplyToOneB {
  Vector b;
  HWY_INLINE Vector operator()(Vector a) const { return formula<kOp, Precision::kF32>(a, b); }
};

template <class T>
HWY_INLINE Vector repeat(const T* element) {
  return hn::Set(Float(), hn::GetLane(load(element, 1)));
}

template <Op kOp, class Y>
void binary_rows_of(const RowLoop<3>& loop, std::int64_t begin, std::int64_t end, const void* a, const void* b,
                    void* y) {
  using T = typename Destination<Y>::Element;
  const bool repeat_a = loop.inner.strides[0] == 0;
  const bool repeat_b = loop.inner.strides[1] == 0;
  RowCursor cursor(loop, begin);
  for (std::int64_t row = begin; row < end; ++row, cursor.next()) {
    const T* a_row = static_cast<const T*>(a) + cursor.offset(0);
    const T* b_row = static_cast<const T*>(b) + cursor.offset(1);
    const Y y_row = Destination<Y>::at(y) + cursor.offset(2);
    if (repeat_a) {
      map_row(cursor.length(), ApplyToOneA<kOp>{repeat(a_row)}, y_row, b_row);
    } else if (repeat_b) {
      map_row(cursor.length(), ApplyToOneB<kOp>{repeat(b_row)}, y_row, a_row);
    } else {
      map_row(cursor.length(), ApplyBinary<kOp>{}, y_row, a_row, b_row);
    }
  }
  finish_writes<Y>();
}

template <class Y>
HWY_INLINE void binary_rows_typed(Op op, const RowLoop<3>& loop, std::int64_t begin, std::int64_t end, const void* a,
                                  const void* b, void* y) {
  switch (op) {
#define HR_UNARY(...)
#define HR_SCALAR(...)
#define HR_BINARY(enumerator, ...) \
  case Op::enumerator:             \
    return binary_rows_of<Op::enumerator, Y>(loop, begin, end, a, b, y);
#include "ir/elementwise.def"
    default:
      return;
  }
}

/// Rows [begin, end) of operands a, b, y.
void binary_rows(DType dtype, bool past_cache, Op op, const RowLoop<3>& loop, std::int64_t begin, std::int64_t end,
                 const void* a, const void* b, void* y) {
  const auto run = [&](auto destination) { binary_rows_typed<decltype(destination)>(op, loop, begin, end, a, b, y); };
  with_destination(dtype, past_cache, run);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(unary_rows);
HWY_EXPORT(binary_rows);

KernelPlan plan_unary(const KernelBinding& binding) {
  const Operand& y = binding.outputs[0];
  const auto loop = longest_rows<2>(y.type.shape, {binding.inputs[0].strides, y.strides});
  const Op op = binding.spec.op;
  const float scalar = scalar_of(binding.spec);
  const DType dtype = y.type.dtype;
  const int threads = binding.threads;
  const bool may_pass_cache = binding.exceeds_cache && rows_begin_on_lines(loop, dtype);
  return {[=](const LaunchArguments& arguments) {
    const bool past_cache = writes_past_cache(may_pass_cache, arguments);
    parallel_for(threads, loop.rows, grain_of(loop.row_length()), [&](std::int64_t begin, std::int64_t end, int) {
      HWY_DYNAMIC_DISPATCH(unary_rows)
      (dtype, past_cache, op, loop, begin, end, scalar, arguments.inputs[0], arguments.outputs[0]);
    });
  }};
}

KernelPlan plan_binary(const KernelBinding& binding) {
  const Operand& y = binding.outputs[0];
  const Shape& shape = y.type.shape;
  const auto loop = longest_rows<3>(
      shape, {broadcast_strides(binding.inputs[0], shape), broadcast_strides(binding.inputs[1], shape), y.strides});
  const Op op = binding.spec.op;
  const DType dtype = y.type.dtype;
  const int threads = binding.threads;
  const bool may_pass_cache = binding.exceeds_cache && rows_begin_on_lines(loop, dtype);
  return {[=](const LaunchArguments& arguments) {
    const bool past_cache = writes_past_cache(may_pass_cache, arguments);
    parallel_for(threads, loop.rows, grain_of(loop.row_length()), [&](std::int64_t begin, std::int64_t end, int) {
      HWY_DYNAMIC_DISPATCH(binary_rows)
      (dtype, past_cache, op, loop, begin, end, arguments.inputs[0], arguments.inputs[1], arguments.outputs[0]);
    });
  }};
}

CpuKernel elementwise(std::string_view name, Op op, KernelPlan (*plan)(const KernelBinding&)) {
  return CpuKernel({.name = name, .op = op, .supports = supports_f32_or_bf16, .in_place = true, .plan = plan});
}

}  // namespace

const Kernel& highway_elementwise(Op op) {
  static const std::array kKernels = {
#define HR_UNARY(enumerator, name, ...) elementwise("highway." #name, Op::enumerator, plan_unary),
#define HR_SCALAR HR_UNARY
#define HR_BINARY(enumerator, name, ...) elementwise("highway." #name, Op::enumerator, plan_binary),
#include "ir/elementwise.def"
  };
  return *std::ranges::find(kKernels, op, &Kernel::op);
}

}  // namespace headroom
#endif
