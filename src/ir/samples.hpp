#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph.hpp"

namespace headroom {

/// The entries of a leading axis are called samples. Where sample i of each result of `node` needs only sample i of
/// some operands, for i in [0, samples): for each operand, whether that is how it is read; the others are needed whole.
/// Nothing where samples mix, where the results have another leading extent, and for a reshape, whose attribute names
/// every extent.
[[nodiscard]] std::optional<std::vector<bool>> operands_by_sample(const Graph& graph, const Node& node,
                                                                  std::int64_t samples);

}  // namespace headroom
