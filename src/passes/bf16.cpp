// bf16: what lies between the first and the last product in bfloat16, as half_precision.cpp says.

#include <string>
#include <utility>

#include "passes/half_precision.hpp"

namespace headroom {

PassOutcome bf16(Graph& graph, const Target& target) {
  if (std::string obstacle = obstacle_to(Capability::kBf16, target); !obstacle.empty())
    return {.rewrites = 0, .declined = std::move(obstacle)};
  return to_half_precision(graph, DType::kBF16);
}

}  // namespace headroom
