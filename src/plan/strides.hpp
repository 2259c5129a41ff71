#pragma once

#include <cstddef>
#include <optional>

#include "base/tensors/shape.hpp"
#include "ir/graph.hpp"
#include "kernels/core/kernel.hpp"

namespace headroom {

/// Whether these strides are those of a dense tensor of that layout; strides of axes of extent 1 do not matter.
[[nodiscard]] bool are_dense(const TensorType& type, const Shape& strides);

/// Whether a tensor with these strides, `offset` bytes into its storage, satisfies a kernel's rule.
[[nodiscard]] bool satisfies(const StrideRule& rule, const TensorType& type, const Shape& strides, std::size_t offset);

/// The strides, except that axes of extent 1 get the stride of a dense tensor of that layout. Dense tensors then have
/// equal strides.
[[nodiscard]] Shape normalized_strides(const TensorType& type, const Shape& strides);

/// The result of a view op, addressed as elements of its operand.
struct View {
  Shape strides;
  std::size_t offset = 0;  ///< bytes from the operand's first element to the result's
};
/// The view for a node with is_view(), over an operand with these strides; nothing if the result needs a copy.
[[nodiscard]] std::optional<View> view_over(const Graph& graph, const Node& node, const Shape& operand);
/// The inverse: the operand's strides for which the result has these strides. Nothing for a slice, which covers only
/// a part of its operand.
[[nodiscard]] std::optional<Shape> operand_strides(const Graph& graph, const Node& node, const Shape& result);

}  // namespace headroom
