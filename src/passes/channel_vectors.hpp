#pragma once

#include <cstdint>

#include "ir/graph.hpp"

namespace headroom {

/// How many channels of a convolution of `dtype` fill the vector that matrix units of a GPU read, 16 bytes, or 1 where none
/// computes it.
[[nodiscard]] std::int64_t channels_in_vector(const Node& convolution, DType dtype);

/// How much of the arithmetic of the graph's convolutions is on channels that fill vectors, from 0 to 1.
[[nodiscard]] double share_on_full_vectors(const Graph& graph);

}  // namespace headroom
