#pragma once

#include <span>
#include <vector>

#include "ir/graph.hpp"

namespace headroom {

/// Result types of `op` on inputs of these types. Throws Error that names the op and the shapes if they do not fit.
[[nodiscard]] std::vector<TensorType> infer(Op op, const Attributes& attributes, std::span<const TensorType> inputs);

/// The shape that two operands broadcast to, as in NumPy. Throws Error if they do not.
[[nodiscard]] Shape broadcast_shapes(const Shape& a, const Shape& b);

}  // namespace headroom
