#pragma once

#include <cstdint>

#include "ir/graph.hpp"

namespace headroom {

/// The number of channels of a convolution in `dtype` that fill the 16-byte vector that matrix units of a GPU read,
/// or 1 if no matrix unit computes it.
[[nodiscard]] std::int64_t channels_in_vector(const Node& convolution, DType dtype);

/// The fraction, from 0 to 1, of the FLOPs of the graph's convolutions that have channels in full vectors.
[[nodiscard]] double share_on_full_vectors(const Graph& graph);

}  // namespace headroom
