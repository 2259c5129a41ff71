// gate_residual: y[b, s, d] = residual[b, s, d] + gate[b, 1, d] * x[b, s, d]
//
// Dtypes   residual, x, y f32 or bf16, gate the same or f32; f32 arithmetic, one rounding. Rows with innermost
// stride 1. Bytes    residual and x read, y written once; the gate of a sample stays in cache. 2 FLOPs an element:
// bound by memory.

#include "kernels/cpu_kernel.hpp"
#include "kernels/cpu_kernels.hpp"
#include "kernels/parallel.hpp"
#include "kernels/row_loop.hpp"
#include "kernels/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gate_residual_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/simd_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

struct Gate {
  HWY_INLINE Vector operator()(Vector residual, Vector gate, Vector x) const { return hn::MulAdd(gate, x, residual); }
};

/// Y is T* or PastCache<T>.
template <class S, class Y>
void gate_rows_of(const RowLoop<4>& loop, std::int64_t begin, std::int64_t end, std::span<const void* const> in,
                  void* y) {
  using T = typename Destination<Y>::Element;
  RowCursor cursor(loop, begin);
  for (std::int64_t row = begin; row < end; ++row, cursor.next()) {
    map_row(cursor.length(), Gate{}, Destination<Y>::at(y) + cursor.offset(3),
            static_cast<const T*>(in[0]) + cursor.offset(0), static_cast<const S*>(in[1]) + cursor.offset(1),
            static_cast<const T*>(in[2]) + cursor.offset(2));
  }
  finish_writes<Y>();
}

/// Rows [begin, end) of operands residual, gate, x, y.
void gate_rows(DType dtype, DType gate_dtype, bool past_cache, const RowLoop<4>& loop, std::int64_t begin,
               std::int64_t end, std::span<const void* const> in, void* y) {
  with_destination(dtype, past_cache, [&](auto destination) {
    using Y = decltype(destination);
    if (gate_dtype == DType::kF32) return gate_rows_of<float, Y>(loop, begin, end, in, y);
    if constexpr (kAllBf16<typename Destination<Y>::Element>) gate_rows_of<Bf16, Y>(loop, begin, end, in, y);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(gate_rows);

KernelPlan plan(const KernelBinding& binding) {
  const std::span<const Operand> in = binding.inputs;
  const Shape& shape = in[0].type.shape;
  const auto loop =
      rows_of<4>(shape, {in[0].strides, broadcast_strides(in[1], shape), in[2].strides, binding.outputs[0].strides});
  const DType dtype = in[0].type.dtype;
  const DType gate_dtype = in[1].type.dtype;
  const int threads = binding.threads;
  const bool may_pass_cache = binding.exceeds_cache && rows_begin_on_lines(loop, dtype);
  return {[=](const LaunchArguments& arguments) {
    const bool past_cache = writes_past_cache(may_pass_cache, arguments);
    parallel_for(threads, loop.rows, grain_of(loop.row_length()), [&](std::int64_t begin, std::int64_t end, int) {
      HWY_DYNAMIC_DISPATCH(gate_rows)
      (dtype, gate_dtype, past_cache, loop, begin, end, arguments.inputs, arguments.outputs[0]);
    });
  }};
}

}  // namespace

const Kernel& highway_gate_residual() {
  static const CpuKernel kernel({.name = "highway.gate_residual",
                                 .op = Op::kGateResidual,
                                 .supports = supports_rows,
                                 .in_place = true,
                                 .plan = plan});
  return kernel;
}

}  // namespace headroom
#endif
