#pragma once

#include <cstdint>

#include "base/target.hpp"
#include "ir/graph.hpp"

namespace headroom::differential {

/// A graph of random ops, loops, `if`s, inputs, states and weights that contains patterns which passes match. It
/// depends only on the seed and the device. dtypes in which no kernel of `device` computes are only cast and moved.
/// The graph is valid (verify() accepts it) and has values of moderate magnitude; rounding decides no predicate and
/// no index.
[[nodiscard]] Graph random_graph(std::uint64_t seed, DeviceKind device);

/// The number of fused-op bodies in a graph of random_bodies(). Nothing is between them: each reads inputs or results
/// of others, and all their results are outputs. Some have enough rows for kernels to split them in several layouts.
inline constexpr int kBodiesOfGraph = 4;
[[nodiscard]] Graph random_bodies(std::uint64_t seed, DeviceKind device);

}  // namespace headroom::differential
