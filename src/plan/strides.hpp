#pragma once

#include <cstddef>
#include <optional>

#include "base/tensors/shape.hpp"
#include "ir/graph.hpp"
#include "kernels/core/kernel.hpp"

namespace headroom {

/// Whether elements at these strides lie as a dense tensor's of that layout do; strides of axes of extent 1 do not matter.
[[nodiscard]] bool are_dense(const TensorType& type, const Shape& strides);

/// Whether a tensor that begins `offset` bytes into its storage satisfies a kernel's rule.
[[nodiscard]] bool satisfies(const StrideRule& rule, const TensorType& type, const Shape& strides, std::size_t offset);

/// Strides as they are, except that axes of extent 1 get the stride a dense tensor of that layout would have there, so that
/// dense means equal strides.
[[nodiscard]] Shape normalized_strides(const TensorType& type, const Shape& strides);

/// The result of a view op as elements of its operand.
struct View {
  Shape strides;
  std::size_t offset = 0;  ///< bytes from the operand's first element to the result's
};
/// Of a node of which is_view() holds, over an operand with these strides; nothing where only a copy has the result.
[[nodiscard]] std::optional<View> view_over(const Graph& graph, const Node& node, const Shape& operand);
/// The inverse: strides of the operand such that the result lies at these. Nothing for a slice, which is not all of it.
[[nodiscard]] std::optional<Shape> operand_strides(const Graph& graph, const Node& node, const Shape& result);

}  // namespace headroom
