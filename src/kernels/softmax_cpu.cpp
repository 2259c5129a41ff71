// softmax: y[..., i] = exp(x[..., i] - m) / sum_j exp(x[..., j] - m), m = max_j x[..., j]
//
// Shapes   x[..., n] -> y[..., n], rows with innermost stride 1; alignment none.
// Dtypes   f32 or bf16 in memory; f32 arithmetic, the sum in f32 runs added in double.
// Bytes    each element read and written once from memory; the three passes over a row find it in cache.
// FLOPs    about 20 an element, nearly all in the exp; 14 for bf16.
//
// A row keeps its exponentials in f32 scratch until they are divided, so that each result is rounded once.

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

/// e^(x - max) for x <= max; 0 below -87, or for bf16 -69, so that no product of it is subnormal.
template <Precision kPrecision>
class Exponential {
 public:
  HWY_INLINE explicit Exponential(float max)
      : max_(hn::Set(Float(), max)), offset_(hn::Mul(max_, hn::Set(Float(), -kLog2E))) {}

  HWY_INLINE Vector operator()(Vector x) const {
    const Float d;
    const Vector log2_e = hn::Set(d, kLog2E);
    if constexpr (kPrecision == Precision::kBf16) {
      // What offset_ is off by is a factor of all exponentials of the row.
      return exp2_or_zero_for_bf16(hn::MulAdd(x, log2_e, offset_));
    }
    const Vector distance = hn::Sub(x, max_);
    const Exp2<kPrecision> power(distance, log2_e);
    return hn::IfThenZeroElse(hn::Lt(distance, hn::Set(d, -87.0F)), hn::Mul(power.fraction, power.scale));
  }

 private:
  static constexpr float kLog2E = 1.44269504F;
  Vector max_, offset_;
};

/// The largest of a row, ignoring NaN where there is a number.
template <class T, class A>
HWY_INLINE float largest_of_row(std::int64_t n, const T* x, A ahead) {
  const Float d;
  Vector even = hn::Set(d, -std::numeric_limits<float>::infinity());
  Vector odd = even;
  std::int64_t i = 0;
  for (; i + kGroup <= n; i += kGroup) {
    ahead.ask();
    const Pairs v = load_group<T>(x + i, kGroup);
    even = hn::Max(v.even, even);
    odd = hn::Max(v.odd, odd);
  }
  const float largest = hn::GetLane(hn::MaxOfLanes(d, hn::Max(even, odd)));
  return i < n ? HWY_MAX(largest, max_row(n - i, x + i)) : largest;
}

/// `exponentials` holds a row in whole groups. `next` is what is read after this row.
template <class Y, class T>
HWY_INLINE void softmax_row(std::int64_t n, const T* x, Y y, float* exponentials, const T* next) {
  using Ahead = ReadAhead<Y, T, 3>;
  const Float d;
  const Exponential<precision_of<T>()> exponential(largest_of_row(n, x, Ahead(next, n, 0)));
  Ahead ahead(next, n, 1);
  const auto exponentiate = [&](std::int64_t i, std::int64_t count) HWY_ATTR {
    ahead.ask();
    const Pairs v = load_group<T>(x + i, count);
    const Pairs power = keep_first_of_group<T>({exponential(v.even), exponential(v.odd)}, count);
    store_planes(power, exponentials + i);
    return power;
  };
  const Vector factor = hn::Set(d, static_cast<float>(1.0 / sum_groups(n, exponentiate)));
  const auto result = [&](std::int64_t i) HWY_ATTR {
    const Pairs power = load_planes(exponentials + i);
    return Pairs{hn::Mul(power.even, factor), hn::Mul(power.odd, factor)};
  };
  ahead = Ahead(next, n, 2);
  std::int64_t i = 0;
  for (; i + kGroup <= n; i += kGroup) {
    ahead.ask();
    store_group(result(i), y + i, kGroup);
  }
  if (i < n) store_group(result(i), y + i, n - i);
}

/// Y is T* or Streamed<T>.
template <class Y>
void softmax_rows_of(const RowLoop<2>& loop, std::int64_t begin, std::int64_t end, const void* x, void* y,
                     float* scratch) {
  using T = typename Place<Y>::Element;
  RowCursor cursor(loop, begin);
  for (std::int64_t row = begin; row < end; ++row) {
    const T* from = static_cast<const T*>(x) + cursor.offset(0);
    const Y to = Place<Y>::at(y) + cursor.offset(1);
    cursor.next();
    softmax_row(loop.inner.extent, from, to, scratch, static_cast<const T*>(x) + cursor.offset(0));
  }
  finish_writes<Y>();
}

/// Rows [begin, end) of operands x, y. `scratch` holds a row of f32.
void softmax_rows(DType dtype, bool streams, const RowLoop<2>& loop, std::int64_t begin, std::int64_t end,
                  const void* x, void* y, float* scratch) {
  with_place(dtype, streams, [&](auto place) { softmax_rows_of<decltype(place)>(loop, begin, end, x, y, scratch); });
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
  constexpr std::int64_t kLargestGroup = 32;  // elements
  const std::int64_t row = (loop.inner.extent + kLargestGroup - 1) / kLargestGroup * kLargestGroup;
  const bool may_stream = binding.streams && rows_begin_on_lines(loop, dtype);
  const auto launch = [=](const LaunchArguments& arguments) {
    const bool streams = writes_past_cache(may_stream, arguments);
    parallel_for(threads, loop.rows, grain_of(loop.row_length()),
                 [&](std::int64_t begin, std::int64_t end, int thread) {
                   float* scratch = static_cast<float*>(arguments.scratch) + thread * row;
                   HWY_DYNAMIC_DISPATCH(softmax_rows)
                   (dtype, streams, loop, begin, end, arguments.inputs[0], arguments.outputs[0], scratch);
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
