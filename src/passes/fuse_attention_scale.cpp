// fuse-attention-scale: mul_scalar(qk_norm_rope(x, w, cos, sin), a)  ->  qk_norm_rope(x, mul_scalar(w, a), cos, sin)
//
// and through a concat of several such streams.
//
// The 1 / sqrt(head_dim) of attention moves into the norm's weight, where it is folded once at load instead of
// costing a pass over the queries. Exact: a norm is linear in its weight and a rotation is linear.

#include <algorithm>

#include "passes/pass.hpp"
#include "passes/rewrite.hpp"

namespace headroom {
namespace {

bool fold_scale(Rewriter& r, const Node& scale) {
  if (scale.op != Op::kMulScalar) return false;
  const Node* concat = r.match_single_use(scale.inputs[0], Op::kConcat);
  std::vector<const Node*> heads;
  for (const ValueId part : concat != nullptr ? concat->inputs : scale.inputs)
    heads.push_back(r.match_single_use(part, Op::kQkNormRope));
  if (std::ranges::find(heads, nullptr) != heads.end()) return false;

  std::vector<ValueId> parts;
  for (const Node* head : heads) {
    std::vector<ValueId> inputs = head->inputs;  // x, weight, cos, sin
    inputs[1] = r.emit(Op::kMulScalar, {inputs[1]}, {{"value", scale.attributes.get_float("value")}}, head->path);
    parts.push_back(r.emit_like(*head, std::move(inputs), head->attributes));
  }
  const ValueId joined = concat == nullptr ? parts[0] : r.emit_like(*concat, parts, concat->attributes);
  r.replace(scale.results[0], joined);
  return true;
}

}  // namespace

PassOutcome fuse_attention_scale(Graph& graph, const Target&) { return {.rewrites = rewrite_each(graph, fold_scale)}; }

}  // namespace headroom
