// int8: linear(x, w, b)  ->  scaled_linear(quantize(x), quantize(w), b), all in i8
//
// quantize_products.cpp says which products, and what is left as it is.

#include <string>
#include <utility>

#include "passes/quantize_products.hpp"

namespace headroom {
namespace {

// Per element of x quantizing costs about 0.2 ns, and int8 saves about 1.7 ps a multiplication (two cores with VNNI):
// 32 columns are too few by themselves, but pay where the next product shares x. Fewer rows or a shorter sum leave the
// unit's blocks part empty. CPUs compute in f32 and bf16, and only move f16.
constexpr QuantizedForm kInt8{.dtype = DType::kI8,
                              .bias_is_f32 = true,
                              .takes_f16 = false,
                              .least_rows = 16,
                              .least_columns = 32,
                              .least_sum = 32};

}  // namespace

PassOutcome int8(Graph& graph, const Target& target) {
  if (std::string obstacle = obstacle_to(Capability::kInt8Products, target); !obstacle.empty())
    return {.rewrites = 0, .declined = std::move(obstacle)};
  return quantize_products(graph, kInt8);
}

}  // namespace headroom
