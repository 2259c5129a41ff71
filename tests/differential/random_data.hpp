#pragma once

#include <cstdint>

#include "ir/interpreter.hpp"
#include "ir/test_cases/op_cases.hpp"

namespace headroom::differential {

/// Tensors for a graph's inputs, params and states. They depend only on how the graph uses them, so that they stay
/// the same while it is shrunk: indices are valid in their tables, weights are scaled by 1 / sqrt(fan-in), scales are
/// positive, and other elements are standard normal. An element depends on the tensor's name, `seed` and `run`;
/// params do not depend on the run.
[[nodiscard]] NamedTensors random_inputs(const Graph& graph, std::uint64_t seed, std::uint64_t run);
[[nodiscard]] NamedTensors random_params(const Graph& graph, std::uint64_t seed);
[[nodiscard]] NamedTensors random_states(const Graph& graph, std::uint64_t seed);

/// Plants special values in one floating-point tensor of `inputs`, chosen by `seed`: a NaN, both infinities, or a row
/// of zeros. Empty if the graph reads no such tensor.
[[nodiscard]] NamedTensors plant(const Graph& graph, NamedTensors inputs, Special special, std::uint64_t seed);

}  // namespace headroom::differential
