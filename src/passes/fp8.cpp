// fp8: linear(x, w, b)  ->  scaled_linear(quantize(x), quantize(w), b), all in f8e4m3
//
// Scaled by row as they come (dynamic scales: nothing is calibrated), x by token and w by output channel, so that each
// row uses the whole range of E4M3, 448. What a product makes keeps its dtype. quantize_products.cpp says which
// products, and what is left as it is.

#include <string>
#include <utility>

#include "passes/quantize_products.hpp"

namespace headroom {
namespace {

// Tensor cores read 16 bytes of a row at once, 16 channels; fewer rows than 16 leave most of a tile empty.
constexpr QuantizedForm kFp8{.dtype = DType::kF8E4M3,
                             .bias_is_f32 = false,
                             .least_rows = 16,
                             .least_columns = 32,
                             .least_sum = 32,
                             .channel_multiple = 16};

}  // namespace

PassOutcome fp8(Graph& graph, const Target& target) {
  if (std::string obstacle = obstacle_to(Capability::kFp8Products, target); !obstacle.empty())
    return {.rewrites = 0, .declined = std::move(obstacle)};
  return quantize_products(graph, kFp8);
}

}  // namespace headroom
