// fuse-linear-activation: gelu_tanh(linear(x, w, b))  ->  linear(x, w, b) {activation = "gelu_tanh"}, and so for
// gelu_erf and silu
//
// The activation becomes the product's epilogue: it runs on values still in registers instead of reading and writing
// the whole result. Fires where nothing else reads the product.

#include "ir/activation.hpp"
#include "passes/pass.hpp"
#include "passes/rewrite.hpp"

namespace headroom {
namespace {

bool fuse(Rewriter& r, const Node& node) {
  if (!activation_for(node.op)) return false;
  const Node* linear = r.match_single_use(node.inputs[0], Op::kLinear);
  if (linear == nullptr || activation_of(linear->attributes) != Activation::kNone) return false;
  r.replace(node.results[0],
            r.emit_like(*linear, linear->inputs, linear->attributes.with("activation", std::string(name_of(node.op)))));
  return true;
}

}  // namespace

PassOutcome fuse_linear_activation(Graph& graph, const Target&) { return {.rewrites = rewrite_each(graph, fuse)}; }

}  // namespace headroom
