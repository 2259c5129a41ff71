// attn8: attention(q, k, v)  ->  scaled_attention(quantize(q), quantize(k), quantize_values(v))
//
// q and k are in i8, or with attn8=e4m3 in f8e4m3, with a scale for each token of a head; v in f8e4m3 with a scale for
// each channel. Streams that are joined along the tokens are quantized before they are joined, so that fuse-rows makes
// one kernel of the norm, rotation and quantizer of each.
//
// attn8=SCORES:keys=centered subtracts from the keys of a head their mean over the tokens. This does not change the
// softmax, and what the keys have in common takes nothing of their 8 bits. It costs two more passes over the keys.
//
// Some attention is left unchanged, each with its reason in the outcome's notes: with a bias, a mask, causal order or
// logsumexp; in other heads than those of 64 and 128; with fewer queries or keys than `least`. If that is not given, it
// is 1536 in heads of 128 and 4096 in heads of 64, which gain less: fewer gained nothing in a whole pass.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/switch_argument.hpp"
#include "passes/pass.hpp"
#include "passes/rewrite.hpp"

namespace headroom {
namespace {

constexpr int kTokenAxis = 2;  // of [b, h, s, d]

/// The argument of the switch attn8.
struct QuantizedAttentionForm {
  DType scores = DType::kI8;
  bool centers_keys = false;
  std::optional<std::int64_t> given_least;  ///< queries and keys

  /// "", "i8" or "e4m3", either followed by ":keys=centered" and ":least=N"; throws a usage Error for anything else.
  explicit QuantizedAttentionForm(std::string_view text) {
    const SwitchArgument argument("attn8", text);
    if (argument.head() != "" && argument.head() != "i8" && argument.head() != "e4m3")
      argument.refuse("expected i8 or e4m3, and perhaps :keys=centered or :least=N");
    if (argument.head() == "e4m3") scores = DType::kF8E4M3;
    argument.read_keys({{"keys",
                         [&](std::string_view how) {
                           if (how != "centered" && how != "plain") argument.refuse("keys may be centered or plain");
                           centers_keys = how == "centered";
                         }},
                        {"least", [&](std::string_view number) {
                           constexpr std::int64_t kMost = 1 << 20;
                           given_least = argument.whole("least", number, 0, kMost);
                         }}});
  }

  [[nodiscard]] std::int64_t least(std::int64_t head_dim) const {
    return given_least.value_or(head_dim == 128 ? 1536 : 4096);
  }
};

class AttentionQuantization {
 public:
  explicit AttentionQuantization(std::string_view argument) : form_(argument) {}

  bool rewrite(Rewriter& r, const Node& node) {
    if (node.op != Op::kAttention) return false;
    if (const std::string reason = reason_to_keep(r, node); !reason.empty()) {
      note(notes_, reason, node);
      return false;
    }
    const std::string& path = node.path;
    const Quantized q = quantized(r, node.input(Role::kQ), node, false);
    const Quantized k = quantized(r, node.input(Role::kK), node, form_.centers_keys);
    const Quantized v = quantized_values(r, node.input(Role::kV), node);
    r.replace(
        node.results[0],
        r.emit(Op::kScaledAttention, {q.elements, q.scale, k.elements, k.scale, v.elements, v.scale},
               {{attr::kScale, node.attributes[attr::kScale]}, {attr::kDType, r.type(node.results[0]).dtype}}, path));
    return true;
  }

  [[nodiscard]] std::vector<PassNote> take_notes() { return std::move(notes_); }

 private:
  struct Quantized {
    ValueId elements = kNoValue, scale = kNoValue;
  };
  /// Quantized operands, which other attention of a region may read too.
  using Known = std::map<std::pair<ValueId, RegionId>, Quantized>;

  [[nodiscard]] std::string reason_to_keep(const Rewriter& r, const Node& node) const {
    if (node.input(Role::kBias) != kNoValue) return "it has a bias or a mask of the scores";
    if (node.attributes[attr::kCausal]) return "it is causal";
    if (node.attributes[attr::kLogsumexp]) return "it gives the logarithm of the sum as well";
    const TensorType& q = r.type(node.input(Role::kQ));
    const Shape& v = r.shape(node.input(Role::kV));  // [b, g, t, e]
    if (q.dtype != DType::kBF16 && q.dtype != DType::kF16)
      return fmt::format("its operands are {}, not of 16 bits", q.dtype);
    if ((q.shape[3] != 64 && q.shape[3] != 128) || v[3] != q.shape[3])
      return fmt::format("heads of {} and {}, where 64 and 128 are taken", q.shape[3], v[3]);
    if (!(node.attributes[attr::kScale] > 0)) return "its scale is not above 0";
    if (std::min(q.shape[kTokenAxis], v[kTokenAxis]) < form_.least(q.shape[3]))
      return fmt::format("too few to pay for quantizing: {} queries, {} keys", q.shape[kTokenAxis], v[kTokenAxis]);
    return {};
  }

  static Quantized emit_quantize(Rewriter& r, Op op, ValueId x, NamedAttributes attributes, const std::string& path) {
    const std::vector<ValueId> results = r.emit_all(op, {x}, std::move(attributes), path);
    return {results[0], results[1]};
  }

  Quantized quantized(Rewriter& r, ValueId x, const Node& node, bool is_centered) {
    const auto [shared, is_new] = (is_centered ? centered_ : plain_).try_emplace({x, node.region}, Quantized{});
    if (is_new)
      shared->second =
          is_centered ? quantize_parts(r, centered(r, x, node.path), node.path) : quantize_parts(r, x, node.path);
    return shared->second;
  }

  Quantized quantized_values(Rewriter& r, ValueId v, const Node& node) {
    const auto [shared, is_new] = values_.try_emplace({v, node.region}, Quantized{});
    if (is_new) shared->second = emit_quantize(r, Op::kQuantizeValues, v, {}, node.path);
    return shared->second;
  }

  /// x[b, h, s, d]; if it joins streams of tokens, each of them.
  [[nodiscard]] Quantized quantize_parts(Rewriter& r, ValueId x, const std::string& path) const {
    const Node* const concat = r.match(x, Op::kConcat);
    if (concat == nullptr || concat->attributes[attr::kAxis] != kTokenAxis)
      return emit_quantize(r, Op::kQuantize, x, {{attr::kDType, form_.scores}}, path);
    std::vector<ValueId> elements, scales;
    for (const ValueId part : std::vector(concat->inputs)) {
      const Quantized quantized = quantize_parts(r, part, path);
      elements.push_back(quantized.elements);
      scales.push_back(quantized.scale);
    }
    return {r.emit(Op::kConcat, std::move(elements), {{attr::kAxis, kTokenAxis}}, path),
            r.emit(Op::kConcat, std::move(scales), {{attr::kAxis, kTokenAxis}}, path)};
  }

  static ValueId centered(Rewriter& r, ValueId k, const std::string& path) {
    const Shape shape = r.shape(k);  // [b, g, t, d]
    const ValueId mean = r.emit(Op::kMean, {k}, {{attr::kAxes, Ints{kTokenAxis}}}, path);
    const ValueId row = r.emit(Op::kReshape, {mean}, {{attr::kShape, Ints{shape[0], shape[1], 1, shape[3]}}}, path);
    return r.emit(Op::kSub, {k, row}, {}, path);
  }

  QuantizedAttentionForm form_;
  Known plain_, centered_, values_;
  std::vector<PassNote> notes_;
};

}  // namespace

PassOutcome attn8(Graph& graph, const Target& /*target*/, std::string_view argument) {
  AttentionQuantization quantization(argument);
  const int rewrites =
      rewrite_each(graph, [&](Rewriter& r, const Node& node) { return quantization.rewrite(r, node); });
  PassOutcome outcome =
      outcome_of(rewrites, "no attention of 16 bits in heads of 64 or 128 is long enough and sees every key");
  outcome.notes = quantization.take_notes();
  return outcome;
}

}  // namespace headroom
