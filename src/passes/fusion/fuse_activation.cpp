// fuse-activation: gelu_tanh(linear(x, w, b))  ->  linear(x, w, b) {epilogue = gelu_tanh(sum)}
//
// The same for gelu_erf, silu and relu, and for every op with an attribute `activation`. The activation becomes the
// op's epilogue: it runs on values still in registers instead of reading and writing the whole result. Applies if
// nothing else reads the result of the op.

#include <optional>

#include "ir/activation.hpp"
#include "passes/pass.hpp"
#include "passes/rewrite.hpp"

namespace headroom {
namespace {

bool fold_activation(Rewriter& r, const Node& node) {
  const std::optional<Activation> activation = activation_for(node.op);
  if (!activation) return false;
  if (const Node* linear = r.match_single_use(node.inputs[0], Op::kLinear);
      linear != nullptr && linear->attributes[attr::kEpilogue].is_empty()) {
    const Attributes with = linear->attributes.with(attr::kEpilogue, Epilogue(*activation));
    r.replace(node.results[0], r.emit_like(*linear, linear->inputs, with));
    return true;
  }
  for (const OpSchema& schema : all_ops()) {
    const Node* maker = schema.has(attr::kActivation) ? r.match_single_use(node.inputs[0], schema.op) : nullptr;
    if (maker == nullptr || maker->attributes[attr::kActivation] != Activation::kNone) continue;
    const Attributes with = maker->attributes.with(attr::kActivation, *activation);
    r.replace(node.results[0], r.emit_like(*maker, maker->inputs, with));
    return true;
  }
  return false;
}

}  // namespace

PassOutcome fuse_activation(Graph& graph, const Target&) { return {.rewrites = rewrite_each(graph, fold_activation)}; }

}  // namespace headroom
