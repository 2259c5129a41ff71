#pragma once

#include <mutex>
#include <optional>

#include "ir/graph.hpp"

namespace headroom {

/// The graph parsed from the attribute `body` of a fused op. It is parsed on first use, by any thread, once for all
/// copies of the attributes. A plan asks for it about twenty times per op.
struct FusedBody {
  std::once_flag is_made;
  std::optional<Graph> graph;
};

}  // namespace headroom
