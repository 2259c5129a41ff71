// mean: y[kept...] = sum of x[kept..., reduced...] / number of reduced elements
//
// Dtypes   f32 or bf16 in memory; f32 sums of 64 vectors, added in double. Alignment none.
// Bytes    x read and y written once; 1 FLOP an element read. A channels-last image is summed one element at a time:
// the op
//          stands at the end of networks, on a few thousand elements.

#include "kernels/cpu_kernel.hpp"
#include "kernels/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/mean_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/simd_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

struct Same {
  HWY_INLINE Vector operator()(Vector x) const { return x; }
};

template <class T>
void mean_each_of(const RowLoop<2>& kept, const RowLoop<1>& reduced, const RowPart& part) {
  const double count = static_cast<double>(reduced.rows * reduced.inner.extent);
  RowCursor result(kept, part.begin);
  for (std::int64_t i = part.begin; i < part.end; ++i, result.next()) {
    double sum = 0;
    RowCursor cursor(reduced, 0);
    for (std::int64_t row = 0; row < reduced.rows; ++row, cursor.next()) {
      sum +=
          sum_row(cursor.length(), Same{}, static_cast<const T*>(part.inputs[0]) + result.offset(0) + cursor.offset(0));
    }
    store(hn::Set(Float(), static_cast<float>(sum / count)), static_cast<T*>(part.outputs[0]) + result.offset(1), 1);
  }
}

/// `kept` walks x and y an element at a time, `reduced` what is summed from there on.
void mean_each(DType dtype, const RowLoop<2>& kept, const RowLoop<1>& reduced, const RowPart& part) {
  if (dtype == DType::kF32) return mean_each_of<float>(kept, reduced, part);
  mean_each_of<Bf16>(kept, reduced, part);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(mean_each);

KernelPlan plan(const KernelBinding& binding) {
  const Operand& x = binding.inputs[0];
  const Operand& y = binding.outputs[0];
  const auto axis = static_cast<std::size_t>(binding.spec.attributes.get_int("axis"));
  // A row of one element after the kept axes, so that each result is a row.
  Shape kept_extents = y.type.shape;
  Shape kept_from(x.strides.dims().first(axis));
  Shape kept_to = y.strides;
  for (Shape* shape : {&kept_extents, &kept_from, &kept_to}) shape->push_back(1);
  const auto kept = rows_of<2>(kept_extents, {kept_from, kept_to});
  const auto reduced = longest_rows<1>(Shape(x.type.shape.dims().subspan(axis)),
                                       {Shape(x.strides.dims().subspan(axis))}, x.type.shape.numel());
  const RowWork work{.threads = binding.threads,
                     .rows = kept.rows,
                     .elements = x.type.shape.numel() / std::max<std::int64_t>(1, kept.rows)};
  return share_rows(work, [=, dtype = y.type.dtype](const RowPart& part) {
    HWY_DYNAMIC_DISPATCH(mean_each)(dtype, kept, reduced, part);
  });
}

const Listed<CpuKernel> kMean(
    {.name = "highway.mean", .op = Op::kMean, .supports = supports_f32_or_bf16, .plan = plan});

}  // namespace
}  // namespace headroom
#endif
