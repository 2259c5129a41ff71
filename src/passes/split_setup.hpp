#pragma once

#include <optional>
#include <span>
#include <string>

#include "ir/graph.hpp"

namespace headroom {

/// Splits off the part of `graph` that depends on none of its `fresh` inputs, which change in each run, nor on
/// states. The part becomes a separate graph, to be run whenever another input or a param has changed. Its outputs
/// are inputs of `graph` by the same names, which begin with "kept."; `graph` still declares all its former inputs.
/// Returns nothing if there is nothing to split off. Throws std::logic_error for a fresh input that does not exist.
[[nodiscard]] std::optional<Graph> split_setup(Graph& graph, std::span<const std::string> fresh);

}  // namespace headroom
