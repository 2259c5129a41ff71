#pragma once

#include <cstdint>

#include "base/target.hpp"
#include "ir/graph.hpp"

namespace headroom::differential {

/// A graph of random ops, loops, `if`s, inputs, states and weights, with what passes look for among them: the same for
/// one seed. `device` says for which kernels: dtypes that none of its kernels computes in are only cast and moved.
/// Sound (verify() accepts it), with numbers of moderate size, and predicates and indices that no rounding decides.
[[nodiscard]] Graph random_graph(std::uint64_t seed, DeviceKind device);

/// So many bodies of fused ops and nothing between them, each of which reads inputs or what another made; all that they make is an
/// output. Now and then on rows enough for kernels to share them in several ways.
inline constexpr int kBodiesOfGraph = 4;
[[nodiscard]] Graph random_bodies(std::uint64_t seed, DeviceKind device);

}  // namespace headroom::differential
