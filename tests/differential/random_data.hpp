#pragma once

#include <cstdint>

#include "ir/interpreter.hpp"

namespace headroom::differential {

/// Tensors for a graph's inputs, params and states, by what the graph does with them alone, so that they stay the same
/// while it is shrunk: indices that their tables have, weights scaled by 1 / sqrt(fan-in), scales that are positive,
/// standard normals elsewhere. An element depends on the tensor's name, `seed` and `run`; params on no run.
[[nodiscard]] NamedTensors random_inputs(const Graph& graph, std::uint64_t seed, std::uint64_t run);
[[nodiscard]] NamedTensors random_params(const Graph& graph, std::uint64_t seed);
[[nodiscard]] NamedTensors random_states(const Graph& graph, std::uint64_t seed);

/// What random numbers do not hold.
enum class Special : std::uint8_t { kNaN, kInfinities, kZeros };
/// `inputs` with it in one floating-point tensor, chosen by `seed`: a NaN, both infinities, or a row of zeros. Empty where the graph
/// reads none.
[[nodiscard]] NamedTensors plant(const Graph& graph, NamedTensors inputs, Special special, std::uint64_t seed);

}  // namespace headroom::differential
