#pragma once

#include <mutex>
#include <optional>

#include "ir/graph.hpp"

namespace headroom {

/// The graph that a fused op's attribute `body` is the text of: made when it is first asked for, by whichever thread, for all copies of the
/// attributes. A plan asks some twenty times for each op.
struct FusedBody {
  std::once_flag is_made;
  std::optional<Graph> graph;
};

}  // namespace headroom
