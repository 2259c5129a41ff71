// argmax: the index of the largest element along an axis, the first of equal ones, as i32
// topk:   the k largest along the innermost axis in descending order, and their indices; equal ones in their order
//
// NaN is larger than any number. Dtypes f32 or bf16. x is read once; topk orders the indices of a row as far as k.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/core/cpu_kernel.hpp"
#include "kernels/core/stored_bf16.hpp"
#include "kernels/reduce/reduced_axes.hpp"

namespace headroom {
namespace {

bool is_larger(float a, float b) { return a > b || (std::isnan(a) && !std::isnan(b)); }

/// Operands of `places`, whose rows have one element: x, at the start of an axis, and the result.
struct Argmax {
  RowLoop<2> places;
  std::int64_t count, step;  ///< of the axis
};

template <class T>
void argmax_of(const Argmax& bound, const RowPart& part) {
  RowCursor place(bound.places, part.begin);
  for (std::int64_t i = part.begin; i < part.end; ++i, place.next()) {
    const T* const x = part.input<T>(0) + place.offset(0);
    std::int64_t largest = 0;
    for (std::int64_t k = 1; k < bound.count; ++k)
      if (is_larger(load(x[k * bound.step]), load(x[largest * bound.step]))) largest = k;
    part.output<std::int32_t>(0)[place.offset(1)] = static_cast<std::int32_t>(largest);
  }
}

KernelPlan plan_argmax(const KernelBinding& binding) {
  const Operand &x = binding.inputs[0], &y = binding.outputs[0];
  const auto axis = static_cast<int>(binding.spec.attributes[attr::kAxis]);
  const Argmax bound{.places = places_without(axis, x, y), .count = x.type.shape[axis], .step = x.strides[axis]};
  const RowWork work{.threads = binding.threads, .rows = bound.places.rows, .elements = bound.count};
  const auto run = x.type.dtype == DType::kF32 ? argmax_of<float> : argmax_of<StoredBf16>;
  return share_rows(work, [=](const RowPart& part) { run(bound, part); });
}

/// Operands of `rows`: x, the values, their indices.
struct Topk {
  RowLoop<3> rows;  ///< of x's length
  std::int64_t k;
};

template <class T>
void topk_of(const Topk& bound, const RowPart& part) {
  const std::int64_t width = bound.rows.inner.extent;
  auto* const order = reinterpret_cast<std::int32_t*>(part.scratch);
  RowCursor row(bound.rows, part.begin);
  for (std::int64_t i = part.begin; i < part.end; ++i, row.next()) {
    const T* const x = part.input<T>(0) + row.offset(0);
    T* const values = part.output<T>(0) + row.offset(1);
    auto* const places = part.output<std::int32_t>(1) + row.offset(2);
    std::iota(order, order + width, 0);
    std::partial_sort(order, order + bound.k, order + width, [&](std::int32_t a, std::int32_t b) {
      const float first = load(x[a]), second = load(x[b]);
      return is_larger(first, second) || (!is_larger(second, first) && a < b);
    });
    for (std::int64_t j = 0; j < bound.k; ++j) {
      values[j] = x[order[j]];
      places[j] = order[j];
    }
  }
}

KernelPlan plan_topk(const KernelBinding& binding) {
  const Operand& x = binding.inputs[0];
  const Topk bound{
      .rows = rows_of<3>(x.type.shape, {x.strides, binding.outputs[0].strides, binding.outputs[1].strides}),
      .k = binding.spec.attributes[attr::kK]};
  const RowWork work{.threads = binding.threads,
                     .rows = bound.rows.rows,
                     .elements = bound.rows.inner.extent,
                     .scratch_elements = bound.rows.inner.extent};  // an i32 is as large as a float
  const auto run = x.type.dtype == DType::kF32 ? topk_of<float> : topk_of<StoredBf16>;
  return share_rows(work, [=](const RowPart& part) { run(bound, part); });
}

Support supports_floats(const OpSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  if (dtype != DType::kF32 && dtype != DType::kBF16) return Rejection{fmt::format("takes f32 or bf16, not {}", dtype)};
  return std::nullopt;
}

Support supports_rows_of_floats(const OpSpec& spec) {
  if (Support rejection = supports_row_major(spec)) return rejection;
  return supports_floats(spec);
}

}  // namespace

const Kernel& plain_argmax() {
  static const CpuKernel kernel({.name = "plain.argmax",
                                 .op = Op::kArgmax,
                                 .supports = supports_floats,
                                 .strides = StrideRule::kAny,
                                 .plan = plan_argmax});
  return kernel;
}

const Kernel& plain_topk() {
  static const CpuKernel kernel(
      {.name = "plain.topk", .op = Op::kTopk, .supports = supports_rows_of_floats, .plan = plan_topk});
  return kernel;
}

}  // namespace headroom
