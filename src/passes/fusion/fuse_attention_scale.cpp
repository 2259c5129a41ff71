// fuse-attention-scale: mul_scalar(qk_norm_rope(x, w, cos, sin), a)  ->  qk_norm_rope(x, mul_scalar(w, a), cos, sin)
//
// The same for rope(rms_norm(x, w), cos, sin), and through a concat of several such streams.
//
// The 1 / sqrt(head_dim) of attention is multiplied into the norm's weight. There it is folded once at load instead
// of costing a pass over the queries. Exact: a norm is linear in its weight, and a rotation is linear.

#include <optional>

#include "passes/pass.hpp"
#include "passes/rewrite.hpp"

namespace headroom {
namespace {

/// The norm and rotation of heads: one op, or a norm below a rotation.
struct QueryStream {
  const Node* norm = nullptr;  // x, weight, ...
  const Node* rope = nullptr;  // of the norm's result; null if the norm op also rotates
};

std::optional<QueryStream> match_query_stream(const Rewriter& r, ValueId heads) {
  if (const Node* both = r.match_single_use(heads, Op::kQkNormRope)) return QueryStream{.norm = both};
  const Node* rope = r.match_single_use(heads, Op::kRope);
  const Node* norm = rope == nullptr ? nullptr : r.match_single_use(rope->input(Role::kX), Op::kRmsNorm);
  if (norm == nullptr || norm->input(Role::kWeight) == kNoValue) return std::nullopt;
  return QueryStream{.norm = norm, .rope = rope};
}

bool fold_scale(Rewriter& r, const Node& scale) {
  if (scale.op != Op::kMulScalar) return false;
  const Node* concat = r.match_single_use(scale.inputs[0], Op::kConcat);
  std::vector<QueryStream> streams;
  for (const ValueId part : concat != nullptr ? concat->inputs : scale.inputs) {
    const std::optional<QueryStream> stream = match_query_stream(r, part);
    if (!stream) return false;
    streams.push_back(*stream);
  }

  std::vector<ValueId> parts;
  for (const auto& [norm, rope] : streams) {
    const ValueId weight = r.emit(Op::kMulScalar, {norm->input(Role::kWeight)},
                                  {{attr::kValue, scale.attributes[attr::kValue]}}, norm->path);
    parts.push_back(r.emit_with(*norm, {{Role::kWeight, weight}}));
    if (rope == nullptr) continue;
    parts.back() = r.emit_with(*rope, {{Role::kX, parts.back()}});
  }
  const ValueId joined = concat == nullptr ? parts[0] : r.emit_like(*concat, parts, concat->attributes);
  r.replace(scale.results[0], joined);
  return true;
}

}  // namespace

PassOutcome fuse_attention_scale(Graph& graph, const Target&) { return {.rewrites = rewrite_each(graph, fold_scale)}; }

}  // namespace headroom
