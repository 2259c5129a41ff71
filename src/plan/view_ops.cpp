#include "plan/view_ops.hpp"

#include "plan/strides.hpp"

namespace headroom {

std::optional<Shape> view_strides(const Graph& graph, const Node& node, const Shape& operand) {
  const Shape& from = graph.type(node.inputs[0]).shape;
  const Shape& to = graph.type(node.results[0]).shape;
  if (node.op == Op::kReshape) return reshape_strides(from, operand, to);
  if (node.op == Op::kSlice) return normalized_strides(to, operand);
  Shape strides = to;
  const auto& perm = node.attributes.get_ints("perm");
  for (int axis = 0; axis < to.rank(); ++axis)
    strides.set(axis, operand[static_cast<int>(perm[static_cast<std::size_t>(axis)])]);
  return normalized_strides(to, strides);
}

std::size_t view_offset(const Graph& graph, const Node& node, const Shape& operand) {
  if (node.op != Op::kSlice) return 0;
  const std::int64_t elements =
      node.attributes.get_int("start") * operand[static_cast<int>(node.attributes.get_int("axis"))];
  return static_cast<std::size_t>(elements) * size_of(graph.type(node.inputs[0]).dtype);
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
