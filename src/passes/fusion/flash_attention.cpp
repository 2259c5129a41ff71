// flash-attention: matmul(softmax(matmul(mul_scalar(q, a), k^T)), v)  ->  attention(q, k, v) {scale = a}
//                  matmul(softmax(add(matmul(mul_scalar(q, a), k^T), bias)), v)
//                                                                         ->  attention(q, k, v, bias) {scale = a}
//
// q[b, h, s, d], k[b, h, t, d], v[b, h, t, e]; bias has at most as many axes, [b or 1, h or 1, s or 1, t]. The scale
// may also multiply k or the scores; several scales multiply, and there may be none. Scores and probabilities,
// [b, h, s, t] each, then exist only tile by tile inside a kernel. If keys and values are repeated for heads that share
// them, reshape(broadcast(reshape(k)) from [b, g, 1, t, d] to [b, g, h/g, t, d]), attention reads each of them once.
// A bias that is 0 up to the diagonal and as low as f16 goes beyond it becomes `causal`, whose kernels skip hidden
// keys. Exact: the softmax is the same, summed in another order.

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "passes/pass.hpp"
#include "passes/rewrite.hpp"

namespace headroom {
namespace {

/// The value below any scales that have no other reader; multiplies these into `scale`.
ValueId strip_scale(const Rewriter& r, ValueId value, double& scale) {
  while (const Node* scaled = r.match_single_use(value, Op::kMulScalar)) {
    scale *= scaled->attributes[attr::kValue];
    value = scaled->inputs[0];
  }
  return value;
}

/// Whether a node multiplies rows of its first operand, and has no epilogue.
bool is_plain_matmul(const Node& node) {
  return node.op == Op::kMatmul && !node.attributes[attr::kTransposeA] && node.attributes[attr::kEpilogue].is_empty();
}

/// The plain matmul that makes a value without other readers; null if there is none.
const Node* match_matmul(const Rewriter& r, ValueId value) {
  const Node* matmul = r.match_single_use(value, Op::kMatmul);
  return matmul != nullptr && is_plain_matmul(*matmul) ? matmul : nullptr;
}

/// Keys or values [b, g, t, d], if `value` [b, h, t, d] repeats each head of them h / g times; otherwise kNoValue.
ValueId match_repeated(const Rewriter& r, ValueId value) {
  const Node* joined = r.match_single_use(value, Op::kReshape);
  const Node* repeated = joined != nullptr ? r.match_single_use(joined->inputs[0], Op::kBroadcast) : nullptr;
  const Node* parted = repeated != nullptr ? r.match_single_use(repeated->inputs[0], Op::kReshape) : nullptr;
  if (parted == nullptr || r.shape(parted->inputs[0]).rank() != 4) return kNoValue;
  const Shape &own = r.shape(parted->inputs[0]), &all = r.shape(value);
  const std::int64_t heads = own[1], tokens = own[2], width = own[3];
  const bool repeats_heads = r.shape(parted->results[0]) == Shape{own[0], heads, 1, tokens, width} &&
                             all == Shape{own[0], all[1], tokens, width} && all[1] % heads == 0 &&
                             r.shape(repeated->results[0]) == Shape{own[0], heads, all[1] / heads, tokens, width};
  return repeats_heads ? parted->inputs[0] : kNoValue;
}

/// The tensor added to the scores before their softmax.
struct Biased {
  ValueId scores, bias;
};
/// Matches softmax's operand if it is the sum of a bias and of scores without other readers.
std::optional<Biased> match_bias(const Rewriter& r, ValueId value) {
  const Node* sum = r.match_single_use(value, Op::kAdd);
  if (sum == nullptr) return std::nullopt;
  for (const std::size_t own : {0U, 1U}) {
    const ValueId scores = sum->inputs[own], bias = sum->inputs[1 - own];
    double scale = 1;
    const bool is_contraction = match_matmul(r, strip_scale(r, scores, scale)) != nullptr;
    const Shape &of_scores = r.shape(scores), &of_bias = r.shape(bias);
    if (is_contraction && of_scores == r.shape(value) && of_bias.rank() > 0 && of_bias[-1] == of_scores[-1])
      return Biased{scores, bias};
  }
  return std::nullopt;
}

/// Whether a weight is a constant whose element i is i, or one of a single number that `holds` is true for.
bool is_constant(const Rewriter& r, ValueId value, const Shape& shape, const std::function<bool(double)>& holds) {
  const Node* const node = r.is_weight(value) ? r.weight_producer(value) : nullptr;
  if (node == nullptr || node->op != Op::kConstant || r.shape(value) != shape) return false;
  const std::vector<double>& values = node->attributes[attr::kValues];
  if (holds) return values.size() == 1 && holds(values[0]);
  if (static_cast<std::int64_t>(values.size()) != shape.numel()) return false;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != static_cast<double>(i)) return false;
  return true;
}

/// Whether a bias hides all keys after a query's own from it, and is 0 for the others: select(i <= j, 0, lowest), as
/// text_encoder::causal_bias() makes it. The lowest number of f16 is none that a score could add up to.
bool is_causal(const Rewriter& r, ValueId bias) {
  constexpr double kLowest = -65504;
  const auto made_by = [&](ValueId value, Op op) {
    const Node* const node = r.is_weight(value) ? r.weight_producer(value) : nullptr;
    return node != nullptr && node->op == op ? node : nullptr;
  };
  while (const Node* const cast = made_by(bias, Op::kCast)) bias = cast->inputs[0];
  const Node* const choice = made_by(bias, Op::kSelect);
  const Node* const order = choice != nullptr ? made_by(choice->inputs[0], Op::kLessEqual) : nullptr;
  if (order == nullptr || r.shape(bias).rank() != 2) return false;
  const std::int64_t tokens = r.shape(bias)[0];
  return r.shape(bias)[1] == tokens && is_constant(r, order->inputs[0], Shape{tokens}, {}) &&
         is_constant(r, order->inputs[1], Shape{tokens, 1}, {}) &&
         is_constant(r, choice->inputs[1], Shape{}, [](double value) { return value == 0; }) &&
         is_constant(r, choice->inputs[2], Shape{}, [](double value) { return value <= kLowest; });
}

/// A row-major bias with as many axes as the scores.
ValueId with_all_axes(Rewriter& r, ValueId bias, const std::string& path) {
  constexpr std::size_t kRank = 4;
  const auto [dtype, shape, layout] = r.type(bias);
  std::vector<std::int64_t> extents(kRank - static_cast<std::size_t>(shape.rank()), 1);
  if (extents.empty() && layout == Layout::kRowMajor) return bias;
  extents.insert(extents.end(), shape.dims().begin(), shape.dims().end());
  return r.emit(Op::kReshape, {bias}, {{attr::kShape, std::move(extents)}}, path);
}

bool fuse(Rewriter& r, const Node& weighted_sum) {
  constexpr int kRank = 4;  // [batch, heads, tokens, head_dim]
  if (!is_plain_matmul(weighted_sum) || weighted_sum.attributes[attr::kTransposeB]) return false;
  if (r.shape(weighted_sum.results[0]).rank() != kRank) return false;
  const Node* softmax = r.match_single_use(weighted_sum.input(Role::kA), Op::kSoftmax);
  if (softmax == nullptr) return false;
  const std::optional<Biased> biased = match_bias(r, softmax->inputs[0]);
  double scale = 1;
  const Node* scores = match_matmul(r, strip_scale(r, biased ? biased->scores : softmax->inputs[0], scale));
  if (scores == nullptr || !scores->attributes[attr::kTransposeB]) return false;
  const ValueId q = strip_scale(r, scores->input(Role::kA), scale);
  ValueId k = strip_scale(r, scores->input(Role::kB), scale), v = weighted_sum.input(Role::kB);
  if (const ValueId keys = match_repeated(r, k), values = match_repeated(r, v);
      keys != kNoValue && values != kNoValue && r.shape(keys)[1] == r.shape(values)[1]) {
    k = keys;
    v = values;
  }
  std::vector<ValueId> inputs = {q, k, v};
  const bool causal = biased && is_causal(r, biased->bias);
  if (biased && !causal) inputs.push_back(with_all_axes(r, biased->bias, weighted_sum.path));
  r.replace(weighted_sum.results[0], r.emit(Op::kAttention, std::move(inputs),
                                            {{attr::kScale, scale}, {attr::kCausal, causal}}, weighted_sum.path));
  return true;
}

}  // namespace

PassOutcome flash_attention(Graph& graph, const Target&) {
  return outcome_of(rewrite_each(graph, fuse),
                    "the graph has no matmul, softmax, matmul over [batch, heads, tokens, head_dim] whose scores "
                    "nothing else reads");
}

}  // namespace headroom
