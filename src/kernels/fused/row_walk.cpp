#include "kernels/fused/row_walk.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>
#include <variant>

#include "ir/expand.hpp"

namespace headroom {
namespace {

using Axis = RowWalk::Axis;

std::int64_t stride_along(const Operand& operand, const std::vector<int>& axes, std::size_t axis) {
  return axes[axis] < 0 ? 0 : operand.strides[axes[axis]];
}

bool lies_behind(const Axis& inner, const Axis& outer) {
  for (std::size_t k = 0; k < inner.strides.size(); ++k)
    if (outer.repeats[k] != 1 || outer.strides[k] * inner.repeats[k] != inner.strides[k] * inner.extent) return false;
  return true;
}

/// Merges each axis into its predecessor if that changes no address.
std::vector<Axis> merged(const std::vector<Axis>& axes) {
  std::vector<Axis> kept;
  for (const Axis& axis : axes) {
    if (axis.extent == 1) continue;
    if (!kept.empty() && lies_behind(axis, kept.back())) {
      kept.back().extent *= axis.extent;
      kept.back().strides = axis.strides;
      kept.back().repeats = axis.repeats;
    } else {
      kept.push_back(axis);
    }
  }
  return kept;
}

/// Appends the axis, split into axes along which each operand repeats either nothing or everything.
void split_repeats(const Axis& axis, std::vector<Axis>& to) {
  std::set<std::int64_t> steps(axis.repeats.begin(), axis.repeats.end());
  steps.insert(1);
  std::int64_t extent = axis.extent;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    Axis part{.extent = extent / *step, .strides = {}, .repeats = std::vector<int>(axis.repeats.size(), 1)};
    for (std::size_t k = 0; k < axis.strides.size(); ++k)
      part.strides.push_back(*step % axis.repeats[k] == 0 ? axis.strides[k] * (*step / axis.repeats[k]) : 0);
    extent = *step;
    to.push_back(std::move(part));
  }
}

/// Whether the axis can be the columns of a row.
bool is_row(const Axis& axis) {
  return std::ranges::all_of(axis.strides, [](std::int64_t stride) { return stride == 0 || stride == 1; });
}

/// Whether rows are contiguous in this order, in all operands with rows of their own.
bool are_rows_in_a_row(const RowWalk& walk) {
  for (std::size_t k = 0; k < walk.columns.strides.size(); ++k) {
    const auto has_own = [&](const Axis& axis) { return axis.strides[k] != 0; };
    if (walk.columns.strides[k] == 0 || !std::ranges::all_of(walk.outer, has_own)) continue;
    std::int64_t next = walk.columns.extent;
    for (auto axis = walk.outer.rbegin(); axis != walk.outer.rend(); next = axis->strides[k] * axis->extent, ++axis)
      if (axis->strides[k] != next) return false;
  }
  return true;
}

/// The reuse distance of load `shared`: bytes read and written between two uses of a row, along the outermost axis
/// that it does not vary along.
std::int64_t bytes_between_uses(const RowWalk& walk, std::size_t shared, std::span<const DType> dtypes) {
  std::int64_t bytes = 0;
  for (std::size_t k = 0; k < dtypes.size(); ++k)
    if (walk.columns.strides[k] != 0) bytes += walk.columns.extent * static_cast<std::int64_t>(size_of(dtypes[k]));
  const auto outermost = std::ranges::find_if(walk.outer, [&](const Axis& axis) { return axis.strides[shared] == 0; });
  for (auto axis = outermost + 1; axis < walk.outer.end(); ++axis) bytes *= axis->extent;
  return bytes;
}

/// Reorders outer axes: the axes along which the largest shared load is constant become innermost. A mask of
/// megabytes for many images is then read from memory once, not once per image. The order is kept if a cache holds
/// the load anyway and rows are contiguous in memory, because memory favours that.
void put_reuse_inside(RowWalk& walk, std::size_t loads, std::span<const DType> dtypes, std::int64_t cache_bytes) {
  const auto own_rows = [&](std::size_t k) {
    std::int64_t rows = 1;
    for (const Axis& axis : walk.outer) rows *= axis.strides[k] == 0 ? 1 : axis.extent;
    return rows;
  };
  const std::int64_t rows = walk.rows();
  std::size_t largest = loads;
  for (std::size_t k = 0; k < loads; ++k)
    if (walk.columns.strides[k] != 0 && own_rows(k) < rows && (largest == loads || own_rows(k) > own_rows(largest)))
      largest = k;
  if (largest == loads) return;
  if (bytes_between_uses(walk, largest, dtypes) <= cache_bytes && are_rows_in_a_row(walk)) return;
  std::ranges::stable_partition(walk.outer, [&](const Axis& axis) { return axis.strides[largest] != 0; });
}

/// `dtypes` are those of the program's loads, then of its results.
RowWalk walk_of(const RowProgram& program, std::span<const Operand> inputs, std::span<const Operand> outputs,
                std::span<const DType> dtypes, std::int64_t cache_bytes) {
  const auto rank = static_cast<std::size_t>(program.space.rank());
  std::vector<Axis> axes(rank);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    axes[axis].extent = program.space[static_cast<int>(axis)];
    for (const RowAccess& load : program.loads) {
      axes[axis].strides.push_back(stride_along(inputs[static_cast<std::size_t>(load.operand)], load.axes, axis));
      axes[axis].repeats.push_back(load.repeats.empty() ? 1 : load.repeats[axis]);
    }
    for (std::size_t i = 0; i < program.results.size(); ++i)
      axes[axis].strides.push_back(stride_along(outputs[i], program.results[i].axes, axis));
    axes[axis].repeats.resize(axes[axis].strides.size(), 1);
  }
  RowWalk walk;
  walk.columns.strides.assign(program.loads.size() + program.results.size(), 0);
  walk.columns.repeats.assign(walk.columns.strides.size(), 1);
  if (rank == 0) return walk;
  const std::size_t first_result = program.loads.size();
  std::vector<Axis> split;
  if (program.needs_rows) {
    walk.columns = std::move(axes.back());
    axes.pop_back();
    for (const Axis& axis : axes) split_repeats(axis, split);
    walk.outer = merged(split);
    put_reuse_inside(walk, first_result, dtypes, cache_bytes);
    return walk;
  }
  std::erase_if(axes, [](const Axis& axis) { return axis.extent == 1; });
  std::ranges::stable_sort(axes, std::greater<>(), [&](const Axis& axis) { return axis.strides[first_result]; });
  for (const Axis& axis : axes) {
    if (&axis == &axes.back() && is_row(axis))
      split.push_back(axis);
    else
      split_repeats(axis, split);
  }
  walk.outer = merged(split);
  if (!walk.outer.empty() && is_row(walk.outer.back())) {
    walk.columns = std::move(walk.outer.back());
    walk.outer.pop_back();
  }
  return walk;
}

}  // namespace

std::int64_t RowWalk::rows() const {
  std::int64_t rows = 1;
  for (const Axis& axis : outer) rows *= axis.extent;
  return rows;
}

BoundProgram bound_program(const OpSpec& spec, std::span<const Operand> inputs, std::span<const Operand> outputs,
                           std::int64_t cache_bytes) {
  BoundProgram bound{.program = std::get<RowProgram>(row_program_of(body_of(spec.attributes))),
                     .walk = {},
                     .loads = {},
                     .results = {}};
  for (const RowAccess& load : bound.program.loads)
    bound.loads.push_back(inputs[static_cast<std::size_t>(load.operand)].type.dtype);
  for (const Operand& output : outputs) bound.results.push_back(output.type.dtype);
  std::vector<DType> dtypes = bound.loads;
  dtypes.insert(dtypes.end(), bound.results.begin(), bound.results.end());
  bound.walk = walk_of(bound.program, inputs, outputs, dtypes, cache_bytes);
  return bound;
}

BoundProgram densely_bound_program(const OpSpec& spec, std::int64_t cache_bytes) {
  std::vector<Operand> inputs, outputs;
  for (const TensorType& type : spec.inputs) inputs.push_back(dense_operand(type));
  for (const TensorType& type : spec.outputs) outputs.push_back(dense_operand(type));
  return bound_program(spec, inputs, outputs, cache_bytes);
}

}  // namespace headroom
