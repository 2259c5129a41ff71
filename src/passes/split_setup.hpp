#pragma once

#include <optional>
#include <span>
#include <string>

#include "ir/graph.hpp"

namespace headroom {

/// Takes out of `graph`, whose runs follow each other, what depends on none of its `fresh` inputs, which are new in each run, nor on states:
/// a graph of its own, to be run whenever another input or a param has changed. Its outputs are inputs of `graph` by the same names,
/// which begin with "kept."; all inputs that `graph` had it still declares. Nothing where there is nothing to take. Throws
/// std::logic_error for a fresh input that there is not.
[[nodiscard]] std::optional<Graph> split_setup(Graph& graph, std::span<const std::string> fresh);

}  // namespace headroom
