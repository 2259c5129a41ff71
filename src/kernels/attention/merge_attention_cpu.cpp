// merge_attention: y = sum_p(w[p] x[p]) / sum_p(w[p]),  w[p] = exp(logsumexp[p] - max)   for each row
//
// Shapes   x[a..., p, c..., e], logsumexp[a..., p, c...] -> y[a..., c..., e], logsumexp[a..., c...]?: rows with
//          innermost stride 1; alignment none.
// Dtypes   x and y f32 or bf16 in memory, logarithms f32; sums over parts in f32, in the order of the parts; the sum of
//          the weights in double.
// Bytes    each part read once, y written once; FLOPs 2 for each element of x, and p exponentials for each row.
//
// The weights of a row become shares of 1 before its elements are read, so that each result is rounded once.

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention/merge_problem.hpp"
#include "kernels/core/cpu_kernel.hpp"
#include "kernels/core/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/merge_attention_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/core/simd_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

/// The shares of a row's parts: below 0 for a part that saw no key. Returns log(sum(exp(logs))).
inline float find_shares(std::int64_t parts, const float* logs, std::int64_t step, float* shares) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  float most = kNone;
  for (std::int64_t p = 0; p < parts; ++p) most = std::max(most, logs[p * step]);
  const float reference = most == kNone ? 0.0F : most;
  double total = 0;
  for (std::int64_t p = 0; p < parts; ++p) {
    shares[p] = std::exp(logs[p * step] - reference);
    total += static_cast<double>(shares[p]);
  }
  const auto inverse = static_cast<float>(1 / total);
  for (std::int64_t p = 0; p < parts; ++p) shares[p] = logs[p * step] == kNone ? -1.0F : shares[p] * inverse;
  return reference + static_cast<float>(std::log(total));
}

/// y is T* or PastCache<T>; a part's x is `step` elements after that of the one before.
template <class T, class Y>
HWY_INLINE void merge_row(std::int64_t n, std::int64_t parts, const float* shares, const T* x, std::int64_t step, Y y) {
  const Float d;
  for (std::int64_t i = 0; i < n; i += lanes()) {
    const std::int64_t count = HWY_MIN(lanes(), n - i);
    Vector sum = hn::Zero(d);
    for (std::int64_t p = 0; p < parts; ++p)
      if (!(shares[p] < 0)) sum = hn::MulAdd(load(x + p * step + i, count), hn::Set(d, shares[p]), sum);
    store(sum, y + i, count);
  }
}

/// The scratch holds a row's shares.
void merge_attention_rows(const MergeProblem& problem, const RowPart& part) {
  HR_TAKE_FLOAT_LOOPS(problem.dtype == DType::kF32, merge_attention_rows(problem, part));
  with_destination(problem.dtype, part.past_cache, [&](auto destination) {
    using Y = decltype(destination);
    using T = typename Destination<Y>::Element;
    RowCursor cursor(problem.rows, part.begin);
    for (std::int64_t row = part.begin; row < part.end; ++row, cursor.next()) {
      const float* const logs = part.input<float>(1) + cursor.offset(1);
      const float log = find_shares(problem.parts, logs, problem.logsumexp_step, part.scratch);
      if (problem.has_logsumexp) part.output<float>(1)[cursor.offset(2)] = log;
      merge_row(problem.rows.inner.extent, problem.parts, part.scratch, part.input<T>(0) + cursor.offset(0),
                problem.x_step, Destination<Y>::at(part.output(0)) + cursor.offset(3));
    }
    finish_writes<Y>();
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(merge_attention_rows);

KernelPlan plan_merge_attention(const KernelBinding& binding) {
  const MergeProblem problem = merge_problem(binding.spec, binding.inputs, binding.outputs);
  RowWork work = row_work(binding, problem.rows);
  work.elements *= problem.parts;
  work.scratch_elements = whole_groups(problem.parts);
  return share_rows(work, [problem](const RowPart& part) {
    HWY_DYNAMIC_DISPATCH(merge_attention_rows)(problem, part);
  });
}

}  // namespace

const Kernel& highway_merge_attention() {
  static const CpuKernel kernel({.name = "highway.merge_attention",
                                 .op = Op::kMergeAttention,
                                 .supports = supports_rows,
                                 .plan = plan_merge_attention});
  return kernel;
}

}  // namespace headroom
#endif
