// softmax: y[..., i] = exp(x[..., i] - m) / sum_j exp(x[..., j] - m), m = max_j x[..., j]
//
// Shapes   x[..., n] -> y[..., n], rows with innermost stride 1; alignment none.
// Dtypes   f32 or bf16 in memory; f32 arithmetic, the sum in f32 runs added in double.
// Bytes    each element read and written once from memory; the four passes over a row find it in cache.
// FLOPs    about 20 an element, nearly all in the exp.
//
// A bf16 row keeps its exponentials in f32 scratch until they are divided, so that each result is rounded once.

#include "kernels/cpu_kernel.hpp"
#include "kernels/parallel.hpp"
#include "kernels/row_loop.hpp"
#include "kernels/simd_targets.hpp"
#include "kernels/softmax.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softmax_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/simd_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

struct Exponential {
  Vector max;
  HWY_INLINE Vector operator()(Vector x) const { return exp_of<ExpRange::kNotPositive>(hn::Sub(x, max)); }
};
struct Same {
  HWY_INLINE Vector operator()(Vector x) const { return x; }
};
struct Scale {
  Vector factor;
  HWY_INLINE Vector operator()(Vector x) const { return hn::Mul(x, factor); }
};

/// `exponentials` may be y.
template <class T>
HWY_INLINE void softmax_row(std::int64_t n, const T* x, T* y, float* exponentials) {
  const Float d;
  map_row(n, Exponential{hn::Set(d, max_row(n, x))}, exponentials, x);
  const double sum = sum_row(n, Same{}, exponentials);
  map_row(n, Scale{hn::Set(d, static_cast<float>(1.0 / sum))}, y, exponentials);
}

/// Rows [begin, end) of operands x, y. `scratch` holds a row of f32 for bf16 operands.
void softmax_rows(DType dtype, const RowLoop<2>& loop, std::int64_t begin, std::int64_t end, const void* x, void* y,
                  float* scratch) {
  RowCursor cursor(loop, begin);
  for (std::int64_t row = begin; row < end; ++row, cursor.next()) {
    if (dtype == DType::kF32) {
      float* to = static_cast<float*>(y) + cursor.offset(1);
      softmax_row(cursor.length(), static_cast<const float*>(x) + cursor.offset(0), to, to);
    } else {
      softmax_row(cursor.length(), static_cast<const Bf16*>(x) + cursor.offset(0),
                  static_cast<Bf16*>(y) + cursor.offset(1), scratch);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(softmax_rows);

CpuPlan plan(const CpuBinding& binding) {
  const Operand& x = binding.inputs[0];
  const auto loop = rows_of<2>(x.type.shape, {x.strides, binding.outputs[0].strides});
  const DType dtype = x.type.dtype;
  const int threads = binding.threads;
  const std::int64_t row = dtype == DType::kF32 ? 0 : loop.inner.extent;
  const auto launch = [=](const LaunchArguments& arguments) {
    parallel_for(threads, loop.rows, grain_of(loop.row_length()),
                 [&](std::int64_t begin, std::int64_t end, int thread) {
                   float* scratch = static_cast<float*>(arguments.scratch) + thread * row;
                   HWY_DYNAMIC_DISPATCH(softmax_rows)
                   (dtype, loop, begin, end, arguments.inputs[0], arguments.outputs[0], scratch);
                 });
  };
  return {launch, static_cast<std::size_t>(threads * row) * sizeof(float)};
}

}  // namespace

const Kernel& highway_softmax() {
  static const CpuKernel kernel(
      {.name = "highway.softmax", .op = Op::kSoftmax, .supports = supports_rows, .in_place = true, .plan = plan});
  return kernel;
}

}  // namespace headroom
#endif
