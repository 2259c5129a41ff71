// scatter_add: y[n, :] = x[n, :] + the sum of updates[i, :] over the i for which ids[i] is n
//
// Dtypes     f32 or bf16 in memory, f32 arithmetic, one rounding; ids of i32 or i64. One outside takes the nearest row.
// Strides    dense.
// Bytes      x and updates read and y written once; 1 FLOP an element of updates: bound by memory.
//
// Updates are first sorted by their rows with a counting sort, which is stable. Rows can then be shared among
// threads, and each row is summed in the same order for any number of threads.

#include "kernels/core/cpu_kernel.hpp"
#include "kernels/core/indexing.hpp"
#include "kernels/core/parallel.hpp"
#include "kernels/core/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/movement/scatter_add_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/core/simd_inl.hpp"

#ifndef HEADROOM_KERNELS_SCATTER_ROWS
#define HEADROOM_KERNELS_SCATTER_ROWS
namespace headroom {
namespace {

/// Rows of `length` elements, and which updates each one gets: order[first[n]] to order[first[n + 1]].
struct ScatterRows {
  DType dtype;
  std::int64_t length;
  const void* x;
  const void* updates;
  void* y;
  const std::int64_t* first;
  const std::int64_t* order;
};

}  // namespace
}  // namespace headroom
#endif

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

template <class T>
void add_rows(const ScatterRows& rows, std::int64_t begin, std::int64_t end) {
  const auto* updates = static_cast<const T*>(rows.updates);
  for (std::int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(rows.x) + row * rows.length;
    T* y = static_cast<T*>(rows.y) + row * rows.length;
    for (std::int64_t at = 0; at < rows.length; at += lanes()) {
      const std::int64_t count = HWY_MIN(lanes(), rows.length - at);
      Vector sum = load(x + at, count);
      for (std::int64_t i = rows.first[row]; i < rows.first[row + 1]; ++i)
        sum = hn::Add(sum, load(updates + rows.order[i] * rows.length + at, count));
      store(sum, y + at, count);
    }
  }
}

void scatter_rows(const ScatterRows& rows, std::int64_t begin, std::int64_t end) {
  rows.dtype == DType::kF32 ? add_rows<float>(rows, begin, end) : add_rows<Bf16>(rows, begin, end);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(scatter_rows);

/// first[n]: the number of updates of rows before n; order: the updates sorted by row, stable within a row.
void sort_updates(const RowIds& ids, const void* numbers, std::int64_t count, std::int64_t* first,
                  std::int64_t* order) {
  std::fill_n(first, ids.rows + 1, 0);
  for (std::int64_t i = 0; i < count; ++i) ++first[ids.row(numbers, i) + 1];
  for (std::int64_t row = 0; row < ids.rows; ++row) first[row + 1] += first[row];
  for (std::int64_t i = count; i-- > 0;) order[--first[ids.row(numbers, i) + 1]] = i;
  for (std::int64_t row = 0; row < ids.rows; ++row) first[row] = first[row + 1];
  first[ids.rows] = count;
}

KernelPlan plan_scatter_add(const KernelBinding& binding) {
  const RowIds ids = row_ids(binding.inputs[0], binding.inputs[1]);
  const std::int64_t count = binding.inputs[1].type.shape[0];
  const TensorType& type = binding.outputs[0].type;
  const std::int64_t length = type.shape.numel() / type.shape[0];
  const auto launch = [=, threads = binding.threads](const LaunchArguments& arguments) {
    auto* const first = arguments.scratch_memory<std::int64_t>();
    auto* const order = first + ids.rows + 1;
    sort_updates(ids, arguments.input(1), count, first, order);
    const ScatterRows rows{type.dtype, length, arguments.input(0), arguments.input(2), arguments.output(0),
                           first,      order};
    parallel_for(threads, ids.rows, grain_of(length * (1 + count / ids.rows)),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(scatter_rows)(rows, begin, end);
                 });
  };
  return {launch, static_cast<std::size_t>(ids.rows + 1 + count) * sizeof(std::int64_t)};
}

Support supports_scatter_add(const OpSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  if (dtype != DType::kF32 && dtype != DType::kBF16) return Rejection{fmt::format("stores f32 or bf16, not {}", dtype)};
  return supports_row_major(spec);
}

}  // namespace

const Kernel& highway_scatter_add() {
  static const CpuKernel kernel({.name = "highway.scatter_add",
                                 .op = Op::kScatterAdd,
                                 .supports = supports_scatter_add,
                                 .strides = StrideRule::kDense,
                                 .in_place = true,
                                 .kept = 0b110,
                                 .plan = plan_scatter_add});
  return kernel;
}

}  // namespace headroom
#endif
