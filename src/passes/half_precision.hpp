#pragma once

#include "passes/pass.hpp"

namespace headroom {

/// Converts what is computed in f32 between the products of a graph to `half`, bf16 or f16.
[[nodiscard]] PassOutcome to_half_precision(Graph& graph, DType half);

}  // namespace headroom
