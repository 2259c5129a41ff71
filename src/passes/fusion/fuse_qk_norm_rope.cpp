// fuse-qk-norm-rope: rope(rms_norm(transpose(reshape(x)), w), cos, sin)  ->  qk_norm_rope(x, w, cos, sin)
//
// and rope(concat(rms_norm(...), ...), cos, sin)  ->  concat(qk_norm_rope(..., rows of cos, rows of sin), ...)
//
// x is [b, s, h*d], split into heads by reshape to [b, s, h, d] and transpose to [b, h, s, d]. One pass over queries
// or keys instead of three. Streams that are joined along s (text and image of a joint attention) are normed and
// rotated separately, each with its own rows of the tables. The plan can write the finished parts of the
// concatenation in place.
//
// If kernels are generated, fuse-rows makes one kernel of the norm and rotation of a stream, or of those of queries
// and keys together. This pass then only splits the streams: rope(concat(...)) -> concat(rope(...), ...).

#include <optional>

#include "passes/pass.hpp"
#include "passes/rewrite.hpp"

namespace headroom {
namespace {

const std::vector<std::int64_t> kHeadsFirst = {0, 2, 1, 3};  // [b, s, h, d] -> [b, h, s, d]
constexpr std::int64_t kTokenAxis = 2;                       // of [b, h, s, d]

/// Queries or keys of one stream before their heads are split.
struct Stream {
  ValueId x;         // [b, s, h*d]
  const Node* norm;  // rms_norm of [b, h, s, d]
  std::int64_t heads, tokens;
};

std::optional<Stream> match_stream(const Rewriter& r, ValueId normed) {
  const Node* norm = r.match_single_use(normed, Op::kRmsNorm);
  if (norm == nullptr || norm->input(Role::kWeight) == kNoValue)
    return std::nullopt;  // a norm without a weight is left unchanged
  const Node* transpose = r.match(norm->input(Role::kX), Op::kTranspose);
  if (transpose == nullptr || transpose->attributes[attr::kPerm] != kHeadsFirst) return std::nullopt;
  const Node* reshape = r.match(transpose->inputs[0], Op::kReshape);
  if (reshape == nullptr) return std::nullopt;
  const ValueId x = reshape->inputs[0];
  const Shape& split = r.shape(reshape->results[0]);  // [b, s, h, d]
  if (r.shape(x) != Shape{split[0], split[1], split[2] * split[3]}) return std::nullopt;
  return Stream{.x = x, .norm = norm, .heads = split[2], .tokens = split[1]};
}

/// The streams that make `x`, a rope's operand: one, or those of a concat along the tokens. Empty if any is of
/// another form.
std::vector<Stream> match_streams(const Rewriter& r, ValueId x) {
  std::vector<ValueId> parts = {x};
  if (const Node* concat = r.match_single_use(x, Op::kConcat)) {
    if (concat->attributes[attr::kAxis] != kTokenAxis) return {};
    parts = concat->inputs;
  }
  std::vector<Stream> streams;
  for (const ValueId part : parts) {
    const std::optional<Stream> stream = match_stream(r, part);
    if (!stream) return {};
    streams.push_back(*stream);
  }
  return streams;
}

bool merge_norm_rope(Rewriter& r, const Node& rope, bool only_parts) {
  if (rope.op != Op::kRope || r.shape(rope.input(Role::kCos)).rank() != 2) return false;
  const std::vector<Stream> streams = match_streams(r, rope.input(Role::kX));
  if (streams.empty() || (only_parts && streams.size() == 1)) return false;

  std::vector<ValueId> parts;
  std::int64_t start = 0;
  for (const Stream& stream : streams) {
    const auto rows = [&](ValueId table) {  // [all tokens, d/2] -> [tokens, d/2]
      if (streams.size() == 1) return table;
      return r.emit(Op::kSlice, {table}, {{attr::kAxis, 0}, {attr::kStart, start}, {attr::kExtent, stream.tokens}},
                    rope.path);
    };
    const ValueId cos = rows(rope.input(Role::kCos));
    const ValueId sin = rows(rope.input(Role::kSin));
    parts.push_back(only_parts
                        ? r.emit_like(rope, {stream.norm->results[0], cos, sin}, rope.attributes)
                        : r.emit(Op::kQkNormRope, {stream.x, stream.norm->input(Role::kWeight), cos, sin},
                                 {{attr::kHeads, stream.heads}, {attr::kEps, stream.norm->attributes[attr::kEps]}},
                                 stream.norm->path));
    start += stream.tokens;
  }
  const ValueId joined =
      parts.size() == 1 ? parts[0] : r.emit(Op::kConcat, parts, {{attr::kAxis, kTokenAxis}}, rope.path);
  r.replace(rope.results[0], joined);
  return true;
}

}  // namespace

PassOutcome fuse_qk_norm_rope(Graph& graph, const Target& target) {
  const bool only_parts = obstacle_to(Capability::kGeneratedKernels, target).empty();
  return {.rewrites =
              rewrite_each(graph, [&](Rewriter& r, const Node& node) { return merge_norm_rope(r, node, only_parts); })};
}

}  // namespace headroom
