// fuse-gate-residual: add(residual, mul(gate, x))  ->  gate_residual(residual, gate, x)
//
// residual and x are [b, s, d], gate is [b, 1, d]. One pass over the residual stream instead of two. Either order of
// the operands of add and mul; nothing else may broadcast.

#include "passes/pass.hpp"
#include "passes/rewrite.hpp"

namespace headroom {
namespace {

bool shapes_fit(const Rewriter& r, ValueId residual, ValueId gate, ValueId x) {
  const TensorType& type = r.type(x);
  if (type.shape.rank() != 3 || r.type(residual) != type) return false;
  return r.type(gate) == TensorType{.dtype = type.dtype, .shape = {type.shape[0], 1, type.shape[2]}};
}

bool fuse_operands(Rewriter& r, const Node& add, ValueId residual, ValueId product) {
  const Node* mul = r.match_single_use(product, Op::kMul);
  if (mul == nullptr) return false;
  for (const auto& [gate, x] : {std::pair(mul->inputs[0], mul->inputs[1]), std::pair(mul->inputs[1], mul->inputs[0])}) {
    if (!shapes_fit(r, residual, gate, x)) continue;
    r.replace(add.results[0], r.emit(Op::kGateResidual, {residual, gate, x}, {}, add.path));
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

PassOutcome fuse_gate_residual(Graph& graph, const Target&) {
  return {.rewrites = rewrite_each(graph, fuse), .declined = {}};
}

}  // namespace headroom
