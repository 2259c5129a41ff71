#include "plan/strides.hpp"

#include <vector>

namespace headroom {

namespace {

/// The axis that is `i`th from the innermost in memory.
int axis_from_inside(const TensorType& type, int i) {
  constexpr int kChannelsLast[] = {1, 3, 2, 0};
  return type.layout == Layout::kChannelsLast ? kChannelsLast[i] : type.shape.rank() - 1 - i;
}

}  // namespace

Shape normalized_strides(const TensorType& type, const Shape& strides) {
  Shape normal = strides;
  std::int64_t dense = 1;
  for (int i = 0; i < type.shape.rank(); ++i) {
    const int axis = axis_from_inside(type, i);
    if (type.shape[axis] == 1) normal.set(axis, dense);
    dense = normal[axis] * type.shape[axis];
  }
  return normal;
}

bool are_dense(const TensorType& type, const Shape& strides) {
  return normalized_strides(type, strides) == dense_operand(type).strides;
}

bool satisfies(const StrideRule& rule, const TensorType& type, const Shape& strides, std::size_t offset) {
  if (offset % rule.alignment != 0) return false;
  const Shape& shape = type.shape;
  if (are_dense(type, strides)) return true;
  if (rule.form == StrideRule::kDense) return false;
  if (rule.form == StrideRule::kInnerDense && normalized_strides(type, strides)[axis_from_inside(type, 0)] != 1)
    return false;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const std::size_t step = static_cast<std::size_t>(strides[axis]) * size_of(type.dtype);
    if (shape[axis] > 1 && strides[axis] != 1 && step % rule.alignment != 0) return false;
  }
  return true;
}

std::optional<View> view_over(const Graph& graph, const Node& node, const Shape& operand) {
  const TensorType& from = graph.type(node.inputs[0]);
  const TensorType& to = graph.type(node.results[0]);
  if (node.op == Op::kReshape) {
    const std::optional<Shape> strides = reshape_strides(from.shape, operand, to.shape);
    return strides ? std::optional(View{normalized_strides(to, *strides)}) : std::nullopt;
  }
  if (node.op == Op::kSlice) {
    const std::int64_t step = operand[static_cast<int>(node.attributes[attr::kAxis])];
    return View{normalized_strides(to, operand),
                static_cast<std::size_t>(node.attributes[attr::kStart] * step) * size_of(from.dtype)};
  }
  Shape strides = to.shape;
  const auto& perm = node.attributes[attr::kPerm];
  for (int axis = 0; axis < to.shape.rank(); ++axis)
    strides.set(axis, operand[static_cast<int>(perm[static_cast<std::size_t>(axis)])]);
  return View{normalized_strides(to, strides)};
}

std::optional<Shape> operand_strides(const Graph& graph, const Node& node, const Shape& result) {
  const TensorType& from = graph.type(node.inputs[0]);
  const Shape& to = graph.type(node.results[0]).shape;
  if (node.op == Op::kSlice) return std::nullopt;
  if (node.op == Op::kReshape) {
    const std::optional<Shape> strides = reshape_strides(to, result, from.shape);
    return strides ? std::optional(normalized_strides(from, *strides)) : std::nullopt;
  }
  Shape strides = from.shape;
  const auto& perm = node.attributes[attr::kPerm];
  for (int axis = 0; axis < to.rank(); ++axis)
    strides.set(static_cast<int>(perm[static_cast<std::size_t>(axis)]), result[axis]);
  return normalized_strides(from, strides);
}

}  // namespace headroom
