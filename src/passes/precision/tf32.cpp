// tf32: linear(x, w)  ->  linear(x, w) {tf32 = 1}; the same for matmul, attention and convolutions, in f32
//
// Contractions whose operands stay f32 in memory run on tensor cores, which round them to TF32: the range of f32 and
// 11 significant bits. Sums are in f32. The attribute permits TF32; the plan reports the compute type in use.

#include "passes/pass.hpp"

namespace headroom {
namespace {

bool is_f32_contraction(const Graph& graph, const Node& node) {
  return node.attributes.has(attr::kTf32) && graph.type(node.results[0]).dtype == DType::kF32;
}

}  // namespace

PassOutcome tf32(Graph& graph, const Target&) {
  const std::vector<bool> is_weight = find_weight_values(graph);
  int rewrites = 0;
  std::vector<Node> nodes = graph.take_nodes();
  for (Node& node : nodes) {
    if (is_weight[index_of(node.results[0])] || !is_f32_contraction(graph, node)) continue;
    node.attributes = node.attributes.with(attr::kTf32, true);
    ++rewrites;
  }
  graph.set_nodes(std::move(nodes));
  return outcome_of(rewrites, "the graph has no product in f32");
}

}  // namespace headroom
