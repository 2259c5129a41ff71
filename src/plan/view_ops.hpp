#pragma once

#include <cstddef>
#include <optional>

#include "ir/op_definition.hpp"

namespace headroom {

// Of nodes of which is_view() holds: reshape, transpose and slice.

/// Strides of the result over an operand with these strides, or nothing where only a copy has the result.
[[nodiscard]] std::optional<Shape> view_strides(const Graph& graph, const Node& node, const Shape& operand);

/// Bytes from the operand's first element to the result's.
[[nodiscard]] std::size_t view_offset(const Graph& graph, const Node& node, const Shape& operand);

/// The inverse: strides of the operand such that the result lies at these. Nothing for a slice, which is not all of it.
[[nodiscard]] std::optional<Shape> operand_strides(const Graph& graph, const Node& node, const Shape& result);

}  // namespace headroom
