// fp16: what lies between the first and the last product in float16, as half_precision.cpp says.
//
// Three bits more of mantissa than bfloat16, and a range of 65504: a model whose activations leave it makes infinities.

#include <string>
#include <utility>

#include "passes/half_precision.hpp"

namespace headroom {

PassOutcome fp16(Graph& graph, const Target& target) {
  if (std::string obstacle = obstacle_to(Capability::kFp16, target); !obstacle.empty())
    return {.rewrites = 0, .declined = std::move(obstacle)};
  return to_half_precision(graph, DType::kF16);
}

}  // namespace headroom
