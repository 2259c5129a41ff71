#include "plan/strides.hpp"

#include <vector>

namespace headroom {

Shape normalized_strides(const Shape& shape, const Shape& strides) {
  Shape normal = strides;
  std::int64_t dense = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] == 1) normal.set(axis, dense);
    dense = normal[axis] * shape[axis];
  }
  return normal;
}

bool are_dense(const Shape& shape, const Shape& strides) {
  return normalized_strides(shape, strides) == row_major_strides(shape);
}

bool satisfies(const StrideRule& rule, const TensorType& type, const Shape& strides, std::size_t offset) {
  if (offset % rule.alignment != 0) return false;
  const Shape& shape = type.shape;
  if (are_dense(shape, strides)) return true;
  if (rule.form == StrideRule::kDense) return false;
  if (rule.form == StrideRule::kInnerDense && normalized_strides(shape, strides)[-1] != 1) return false;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const std::size_t step = static_cast<std::size_t>(strides[axis]) * size_of(type.dtype);
    if (shape[axis] > 1 && strides[axis] != 1 && step % rule.alignment != 0) return false;
  }
  return true;
}

std::optional<Shape> reshape_strides(const Shape& shape, const Shape& strides, const Shape& target) {
  // Merge neighbouring axes that step evenly into runs, then cut the runs into the target's axes, innermost first.
  struct Run {
    std::int64_t extent, stride;
  };
  std::vector<Run> runs;  // innermost first
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    if (!runs.empty() && strides[axis] == runs.back().stride * runs.back().extent)
      runs.back().extent *= shape[axis];
    else
      runs.push_back({shape[axis], strides[axis]});
  }
  Shape result = target;
  std::size_t run = 0;
  std::int64_t used = 1;  // elements of the current run that inner target axes take
  std::int64_t dense = 1;
  for (int axis = target.rank() - 1; axis >= 0; --axis) {
    if (target[axis] == 1) {
      result.set(axis, dense);
      continue;
    }
    if (run < runs.size() && used == runs[run].extent) {
      ++run;
      used = 1;
    }
    if (run == runs.size() || runs[run].extent % (used * target[axis]) != 0) return std::nullopt;
    result.set(axis, runs[run].stride * used);
    used *= target[axis];
    dense = result[axis] * target[axis];
  }
  return result;
}

std::optional<View> view_over(const Graph& graph, const Node& node, const Shape& operand) {
  const TensorType& from = graph.type(node.inputs[0]);
  const Shape& to = graph.type(node.results[0]).shape;
  if (node.op == Op::kReshape) {
    const std::optional<Shape> strides = reshape_strides(from.shape, operand, to);
    return strides ? std::optional(View{*strides}) : std::nullopt;
  }
  if (node.op == Op::kSlice) {
    const std::int64_t step = operand[static_cast<int>(node.attributes.get_int("axis"))];
    return View{normalized_strides(to, operand),
                static_cast<std::size_t>(node.attributes.get_int("start") * step) * size_of(from.dtype)};
  }
  Shape strides = to;
  const auto& perm = node.attributes.get_ints("perm");
  for (int axis = 0; axis < to.rank(); ++axis)
    strides.set(axis, operand[static_cast<int>(perm[static_cast<std::size_t>(axis)])]);
  return View{normalized_strides(to, strides)};
}

std::optional<Shape> operand_strides(const Graph& graph, const Node& node, const Shape& result) {
  const Shape& from = graph.type(node.inputs[0]).shape;
  const Shape& to = graph.type(node.results[0]).shape;
  if (node.op == Op::kReshape) return reshape_strides(to, result, from);
  if (node.op == Op::kSlice) return std::nullopt;
  Shape strides = from;
  const auto& perm = node.attributes.get_ints("perm");
  for (int axis = 0; axis < to.rank(); ++axis)
    strides.set(static_cast<int>(perm[static_cast<std::size_t>(axis)]), result[axis]);
  return normalized_strides(from, strides);
}

}  // namespace headroom
