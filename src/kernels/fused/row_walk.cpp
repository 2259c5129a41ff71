#include "kernels/fused/row_walk.hpp"

#include <algorithm>
#include <functional>
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
  return std::ranges::equal(outer.strides, inner.strides, {}, {},
                            [&](std::int64_t stride) { return stride * inner.extent; });
}

/// Merges each axis into the one in front of it where that changes no address.
std::vector<Axis> merged(const std::vector<Axis>& axes) {
  std::vector<Axis> kept;
  for (const Axis& axis : axes) {
    if (axis.extent == 1) continue;
    if (!kept.empty() && lies_behind(axis, kept.back())) {
      kept.back().extent *= axis.extent;
      kept.back().strides = axis.strides;
    } else {
      kept.push_back(axis);
    }
  }
  return kept;
}

}  // namespace

std::int64_t RowWalk::rows() const {
  std::int64_t rows = 1;
  for (const Axis& axis : outer) rows *= axis.extent;
  return rows;
}

RowWalk walk_of(const RowProgram& program, std::span<const Operand> inputs, std::span<const Operand> outputs) {
  const auto rank = static_cast<std::size_t>(program.space.rank());
  std::vector<Axis> axes(rank);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    axes[axis].extent = program.space[static_cast<int>(axis)];
    for (const RowAccess& load : program.loads)
      axes[axis].strides.push_back(stride_along(inputs[static_cast<std::size_t>(load.operand)], load.axes, axis));
    for (std::size_t i = 0; i < program.results.size(); ++i)
      axes[axis].strides.push_back(stride_along(outputs[i], program.results[i].axes, axis));
  }
  RowWalk walk;
  walk.columns.strides.assign(program.loads.size() + program.results.size(), 0);
  if (rank == 0) return walk;
  if (program.needs_rows) {
    walk.columns = std::move(axes.back());
    axes.pop_back();
    walk.outer = merged(axes);
    return walk;
  }
  const std::size_t first_result = program.loads.size();
  std::ranges::stable_sort(axes, std::greater<>(), [&](const Axis& axis) { return axis.strides[first_result]; });
  walk.outer = merged(axes);
  const auto is_row = [](const Axis& axis) {
    return std::ranges::all_of(axis.strides, [](std::int64_t stride) { return stride == 0 || stride == 1; });
  };
  if (!walk.outer.empty() && is_row(walk.outer.back())) {
    walk.columns = std::move(walk.outer.back());
    walk.outer.pop_back();
  }
  return walk;
}

BoundProgram bound_program(const OpSpec& spec, std::span<const Operand> inputs, std::span<const Operand> outputs) {
  BoundProgram bound{.program = std::get<RowProgram>(row_program_of(body_of(spec.attributes))),
                     .walk = {},
                     .loads = {},
                     .results = {}};
  bound.walk = walk_of(bound.program, inputs, outputs);
  for (const RowAccess& load : bound.program.loads)
    bound.loads.push_back(inputs[static_cast<std::size_t>(load.operand)].type.dtype);
  for (const Operand& output : outputs) bound.results.push_back(output.type.dtype);
  return bound;
}

}  // namespace headroom
