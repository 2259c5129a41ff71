// flash-attention: matmul(softmax(matmul(mul_scalar(q, a), k^T)), v)  ->  attention(q, k, v) {scale = a}
//
// q[b, h, s, d], k[b, h, t, d], v[b, h, t, e]. The scale may as well multiply k or the scores, several scales multiply,
// and there may be none. Scores and probabilities, [b, h, s, t] each, then exist only tile by tile inside a kernel.
// Exact: the softmax is the same, summed in another order.

#include "passes/pass.hpp"
#include "passes/rewrite.hpp"

namespace headroom {
namespace {

/// The value under any scales that nothing else reads, their product taken into `scale`.
ValueId strip_scale(const Rewriter& r, ValueId value, double& scale) {
  while (const Node* scaled = r.match_single_use(value, Op::kMulScalar)) {
    scale *= scaled->attributes.get_float("value");
    value = scaled->inputs[0];
  }
  return value;
}

bool fuse(Rewriter& r, const Node& weighted_sum) {
  constexpr int kRank = 4;  // [batch, heads, tokens, head_dim]
  if (weighted_sum.op != Op::kMatmul || weighted_sum.attributes.get_int("transpose_b") != 0) return false;
  if (r.shape(weighted_sum.results[0]).rank() != kRank) return false;
  const Node* softmax = r.match_single_use(weighted_sum.inputs[0], Op::kSoftmax);
  if (softmax == nullptr) return false;
  double scale = 1;
  const Node* scores = r.match_single_use(strip_scale(r, softmax->inputs[0], scale), Op::kMatmul);
  if (scores == nullptr || scores->attributes.get_int("transpose_b") != 1) return false;
  const ValueId q = strip_scale(r, scores->inputs[0], scale);
  const ValueId k = strip_scale(r, scores->inputs[1], scale);
  r.replace(weighted_sum.results[0],
            r.emit(Op::kAttention, {q, k, weighted_sum.inputs[1]}, {{"scale", scale}}, weighted_sum.path));
  return true;
}

}  // namespace

PassOutcome flash_attention(Graph& graph, const Target&) {
  return outcome_of(rewrite_each(graph, fuse),
                    "the graph has no matmul, softmax, matmul over [batch, heads, tokens, head_dim] whose scores "
                    "nothing else reads");
}

}  // namespace headroom
