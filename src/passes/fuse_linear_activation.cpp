// fuse-linear-activation: gelu(linear(x, w, b))  ->  linear(x, w, b) {activation = "gelu_tanh"}, and so for silu
//
// The activation becomes the product's epilogue: it runs on values still in registers instead of reading and writing
// the whole result. Fires where nothing else reads the product.

#include <optional>

#include "passes/pass.hpp"
#include "passes/rewrite.hpp"

namespace headroom {
namespace {

/// The activation attribute of a linear that stands for `node`.
std::optional<std::string> epilogue_for(const Node& node) {
  if (node.op == Op::kSilu) return "silu";
  if (node.op == Op::kGelu) return node.attributes.get_text("approximate") == "tanh" ? "gelu_tanh" : "gelu";
  return std::nullopt;
}

bool fuse(Rewriter& r, const Node& node) {
  const std::optional<std::string> activation = epilogue_for(node);
  if (!activation) return false;
  const Node* linear = r.match_single_use(node.inputs[0], Op::kLinear);
  if (linear == nullptr || linear->attributes.get_text("activation") != "none") return false;
  r.replace(node.results[0], r.emit_like(*linear, linear->inputs, linear->attributes.with("activation", *activation)));
  return true;
}

}  // namespace

PassOutcome fuse_linear_activation(Graph& graph, const Target&) {
  return {.rewrites = rewrite_each(graph, fuse), .declined = {}};
}

}  // namespace headroom
