// How elementwise kernels go over their operands: of elementwise_cpu.cpp and of functions_cpu.cpp, which share the ops.
// Guarded as simd_inl.hpp is.

#if defined(HEADROOM_KERNELS_ELEMENTWISE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADROOM_KERNELS_ELEMENTWISE_INL
#undef HEADROOM_KERNELS_ELEMENTWISE_INL
#else
#define HEADROOM_KERNELS_ELEMENTWISE_INL
#endif

#include "kernels/core/simd_inl.hpp"
#include "kernels/elementwise/elementwise_rows.hpp"
#include "kernels/elementwise/functions_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

template <Op kOp, Precision kPrecision>
struct Formula {
  Vector b, c;
  HWY_INLINE Vector operator()(Vector a) const { return formula<kOp, kPrecision, Functions<kPrecision>>(a, b, c); }
  template <class... V>
  HWY_INLINE Vector operator()(Vector a, V... others) const {
    return formula<kOp, kPrecision, Functions<kPrecision>>(a, others...);
  }
};

/// map_row() for operands of which x are found; S is the storage type of b of three operands, Y is T* or
/// PastCache<T>.
template <Op kOp, int kOperands, Ties kTies, class S, class Y, class... X>
HWY_INLINE void map_operands(const ElementwiseRows& rows, const RowCursor<4>& cursor, const RowPart& part, X... x) {
  using T = typename Destination<Y>::Element;
  constexpr std::size_t kFound = sizeof...(X);
  if constexpr (kFound == kOperands) {
    const Formula<kOp, precision_of<T>()> function{hn::Set(Float(), rows.scalars.b), hn::Set(Float(), rows.scalars.c)};
    map_row<kTies>(cursor.length(), function, Destination<Y>::at(part.output(0)) + cursor.offset(3), x...);
  } else {
    // One of two may be the same in the whole row, and the second of three.
    constexpr bool kMayRepeat = kOperands == 2 ? !(std::is_same_v<X, Repeated> || ...) : kFound == 1;
    using Stored = std::conditional_t<kOperands == 3 && kFound == 1, S, T>;
    const Stored* next = part.input<Stored>(kFound) + cursor.offset(kFound);
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

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#endif
