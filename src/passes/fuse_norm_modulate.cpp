// fuse-norm-modulate: add(mul(layer_norm(x), add_scalar(scale, 1)), shift)  ->  norm_modulate(x, scale, shift)
//
// x is [b, s, d], scale and shift are [b, 1, d]. Adaptive layer norm (Peebles and Xie, "Scalable diffusion models
// with transformers", 2023, section 3.2) in one pass over x instead of three. Either order of the operands of add and
// mul.

#include "passes/pass.hpp"
#include "passes/rewrite.hpp"

namespace headroom {
namespace {

/// Whether `vector` is [b, 1, d] where x is [b, s, d], of the same dtype.
bool is_vector_for(const Rewriter& r, ValueId vector, ValueId x) {
  if (r.shape(x).rank() != 3) return false;
  return r.type(vector) == TensorType{.dtype = r.type(x).dtype, .shape = {r.shape(x)[0], 1, r.shape(x)[2]}};
}

bool fuse_operands(Rewriter& r, const Node& add, ValueId product, ValueId shift) {
  const Node* mul = r.match_single_use(product, Op::kMul);
  if (mul == nullptr) return false;
  for (const auto& [normed, factor] :
       {std::pair(mul->inputs[0], mul->inputs[1]), std::pair(mul->inputs[1], mul->inputs[0])}) {
    const Node* norm = r.match_single_use(normed, Op::kLayerNorm);
    const Node* scale = r.match(factor, Op::kAddScalar);
    if (norm == nullptr || scale == nullptr || scale->attributes.get_float("value") != 1.0) continue;
    const ValueId x = norm->inputs[0];
    if (!is_vector_for(r, scale->inputs[0], x) || !is_vector_for(r, shift, x)) continue;
    r.replace(add.results[0], r.emit(Op::kNormModulate, {x, scale->inputs[0], shift},
                                     {{"eps", norm->attributes.get_float("eps")}}, norm->path));
    return true;
  }
  return false;
}

bool fuse(Rewriter& r, const Node& node) {
  if (node.op != Op::kAdd) return false;
  return fuse_operands(r, node, node.inputs[0], node.inputs[1]) ||
         fuse_operands(r, node, node.inputs[1], node.inputs[0]);
}

}  // namespace

PassOutcome fuse_norm_modulate(Graph& graph, const Target&) {
  return {.rewrites = rewrite_each(graph, fuse), .declined = {}};
}

}  // namespace headroom
