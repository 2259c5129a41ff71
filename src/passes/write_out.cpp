// write-out: cross_entropy(x, ids)  ->  sub(add(log(sum(exp(...))), ...), sum(select(...)))
//
// Replaces fused ops that no kernel of the target runs by their definitions, whose ops may then be fused otherwise.
// Gradients contain such ops: losses, and attention_backward in heads or on devices that its kernels do not take.

#include "ir/expand.hpp"
#include "ir/fusion_rules.hpp"
#include "ir/op_definition.hpp"
#include "passes/pass.hpp"

namespace headroom {
namespace {

bool lacks_kernel(const Graph& graph, const Node& node, const Target& target) {
  if (target.fusion == nullptr || !schema_of(node.op).fused || definition_of(node.op).expand == nullptr) return false;
  std::vector<TensorType> inputs;
  for (const ValueId input : node.inputs) inputs.push_back(graph.type(input));
  return !target.fusion->runs(target, node.op, node.attributes, inputs, graph.type(node.results[0]));
}

}  // namespace

PassOutcome write_out(Graph& graph, const Target& target) {
  std::vector<bool> replaces;
  int count = 0;
  for (const Node& node : graph.nodes()) {
    replaces.push_back(lacks_kernel(graph, node, target));
    count += replaces.back() ? 1 : 0;
  }
  if (count > 0) replace_by_definitions(graph, replaces);
  return {.rewrites = count};
}

}  // namespace headroom
