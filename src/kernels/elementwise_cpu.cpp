// Elementwise ops: y = f(a), f(a, b) or f(a, b, c), one element from the same place in each operand.
//
// Shapes   any; operands broadcast. Axes that lie behind each other in all operands are merged, so dense operands are
//          one row. A row is contiguous in each operand, or one repeated element (a broadcast innermost axis).
// Dtypes   f32 or bf16 in memory (b of three operands f32 beside either), f32 arithmetic, one rounding; alignment none.
// Bytes    each operand once.
// FLOPs    1 an element, so memory is the bound; silu and gelu spend about 20 (see activation_inl.hpp), which one core
//          hides behind memory only at 256 bits and wider. Operands that do not fit the cache: results are written
//          past it and reads asked for 4 KiB ahead, a copy's rate in f32, from 0.5-0.6. In bf16 gelu takes as many
//          cycles as memory: 0.91 of a copy's rate on two cores, from 0.82 with the CPU's instruction for bf16 and
//          reads asked for 2 KiB ahead; silu 0.95, from 0.91.

#include <algorithm>

#include "kernels/cpu_kernel.hpp"
#include "kernels/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/activation_inl.hpp"
#include "kernels/simd_inl.hpp"

#ifndef HEADROOM_KERNELS_ELEMENTWISE_ROWS
#define HEADROOM_KERNELS_ELEMENTWISE_ROWS
namespace headroom {
namespace {

/// What the kernel of an op is bound to. Operands of `loop`: a, b, c, y.
struct ElementwiseRows {
  Op op;
  DType dtype;   ///< of y and all operands
  DType side;    ///< but for b of three, which may be f32
  float scalar;  ///< in place of b, where the op has one operand
  RowLoop<4> loop;
};

}  // namespace
}  // namespace headroom
#endif

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

template <Op kOp, Precision kPrecision>
struct Formula {
  Vector scalar;
  HWY_INLINE Vector operator()(Vector a) const { return formula<kOp, kPrecision>(a, scalar); }
  template <class... V>
  HWY_INLINE Vector operator()(Vector a, V... others) const {
    return formula<kOp, kPrecision>(a, others...);
  }
};

/// map_row() for operands of which x are found; S is what b of three operands is stored in, Y T* or PastCache<T>.
template <Op kOp, int kOperands, Ties kTies, class S, class Y, class... X>
HWY_INLINE void map_operands(const ElementwiseRows& rows, const RowCursor<4>& cursor, const RowPart& part, X... x) {
  using T = typename Destination<Y>::Element;
  constexpr std::size_t kFound = sizeof...(X);
  if constexpr (kFound == kOperands) {
    const Formula<kOp, precision_of<T>()> function{hn::Set(Float(), rows.scalar)};
    map_row<kTies>(cursor.length(), function, Destination<Y>::at(part.outputs[0]) + cursor.offset(3), x...);
  } else {
    // One of two may be the same in the whole row, and the second of three.
    constexpr bool kMayRepeat = kOperands == 2 ? !(std::is_same_v<X, Repeated> || ...) : kFound == 1;
    using Stored = std::conditional_t<kOperands == 3 && kFound == 1, S, T>;
    const Stored* next = static_cast<const Stored*>(part.inputs[kFound]) + cursor.offset(kFound);
    if (kMayRepeat && rows.loop.inner.strides[kFound] == 0) {
      const Repeated repeated{hn::Set(Float(), hn::GetLane(load(next, 1)))};
      if constexpr (kMayRepeat) map_operands<kOp, kOperands, kTies, S, Y>(rows, cursor, part, x..., repeated);
    } else {
      map_operands<kOp, kOperands, kTies, S, Y>(rows, cursor, part, x..., next);
    }
  }
}

template <Op kOp, int kOperands, Ties kTies, class S, class Y>
void rows_of(const ElementwiseRows& rows, const RowPart& part) {
  RowCursor cursor(rows.loop, part.begin);
  for (std::int64_t row = part.begin; row < part.end; ++row, cursor.next())
    map_operands<kOp, kOperands, kTies, S, Y>(rows, cursor, part);
  finish_writes<Y>();
}

template <class Y>
HWY_INLINE void rows_typed(const ElementwiseRows& rows, const RowPart& part) {
  using T = typename Destination<Y>::Element;
  switch (rows.op) {  // sums and products of bf16 often lie halfway between two; values of functions do not
#define HR_FORM(enumerator, operands, ties) \
  case Op::enumerator:                      \
    return rows_of<Op::enumerator, operands, ties, T, Y>(rows, part);
#define HR_UNARY(enumerator, ...) HR_FORM(enumerator, 1, Ties::kAway)
#define HR_SCALAR(enumerator, ...) HR_FORM(enumerator, 1, Ties::kToEven)
#define HR_BINARY(enumerator, ...) HR_FORM(enumerator, 2, Ties::kToEven)
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
  with_destination(rows.dtype, part.past_cache,
                   [&](auto destination) { rows_typed<decltype(destination)>(rows, part); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(elementwise_rows);

KernelPlan plan(const KernelBinding& binding) {
  const std::span<const Operand> in = binding.inputs;
  const Operand& y = binding.outputs[0];
  const ElementwiseRows rows{.op = binding.spec.op,
                             .dtype = y.type.dtype,
                             .side = in[std::min<std::size_t>(1, in.size() - 1)].type.dtype,
                             .scalar = scalar_of(binding.spec),
                             .loop = longest_rows<4>(y.type.shape, elementwise_strides(in, y))};
  return share_rows(row_work(binding, rows.loop), [rows](const RowPart& part) {
    HWY_DYNAMIC_DISPATCH(elementwise_rows)(rows, part);
  });
}

#define HR_ANY(enumerator, title, ...)                                  \
  const Listed<CpuKernel> enumerator({.name = "highway." #title,        \
                                      .op = Op::enumerator,             \
                                      .supports = supports_f32_or_bf16, \
                                      .in_place = true,                 \
                                      .plan = plan});
#include "ir/elementwise.def"

}  // namespace
}  // namespace headroom
#endif
