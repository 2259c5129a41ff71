#pragma once

#include <cstddef>
#include <optional>

#include "ir/graph.hpp"

namespace headroom {

/// Whether a node's result can be its operand's elements under other strides: reshape, transpose and slice.
[[nodiscard]] bool is_view_op(Op op);

/// Strides of such a node's result over an operand with these strides, or nothing where only a copy has the result.
[[nodiscard]] std::optional<Shape> view_strides(const Graph& graph, const Node& node, const Shape& operand);

/// Bytes from the operand's first element to the result's.
[[nodiscard]] std::size_t view_offset(const Graph& graph, const Node& node, const Shape& operand);

/// The inverse: strides of the operand such that the result lies at these. Nothing for a slice, which is not all of it.
[[nodiscard]] std::optional<Shape> operand_strides(const Graph& graph, const Node& node, const Shape& result);

}  // namespace headroom
