// fuse-patterns: the tree of ops in a pattern  ->  the fused op given next to it
//
// One pass over memory instead of several. Another fusion of this kind is one more function: the pattern, the
// condition and the replacement. Each fusion is applied to the whole graph before the next.

#include <vector>

#include "passes/pass.hpp"
#include "passes/pattern.hpp"

namespace headroom {
namespace {

struct Fusion {
  Pattern pattern;
  bool (*fits)(const Rewriter& r, const Match& match);
  /// Emits nodes equivalent to `root`, the last op of the pattern. Returns a value for each of its results.
  std::vector<ValueId> (*emit)(Rewriter& r, const Match& match, const Node& root);
};

/// Whether `vector` is [b, 1, d] for x of shape [b, s, d], with the same dtype.
bool is_vector_for(const Rewriter& r, ValueId vector, ValueId x) {
  const TensorType& type = r.type(x);
  return type.shape.rank() == 3 &&
         r.type(vector) == TensorType{.dtype = type.dtype, .shape = {type.shape[0], 1, type.shape[2]}};
}

/// layer_norm(x) * (scale + 1) + shift: adaptive layer norm (Peebles and Xie, "Scalable diffusion models with
/// transformers", 2023, section 3.2).
Fusion norm_modulate() {
  return {.pattern = op(Op::kAdd, {op(Op::kMul, {op(Op::kLayerNorm, {any("x")}, "norm"),
                                                 op(Op::kAddScalar, {any("scale")}, "one more").shared()}),
                                   any("shift")}),
          .fits =
              [](const Rewriter& r, const Match& m) {
                return m.node("one more").attributes[attr::kValue] == 1.0 && is_vector_for(r, m["scale"], m["x"]) &&
                       is_vector_for(r, m["shift"], m["x"]);
              },
          .emit =
              [](Rewriter& r, const Match& m, const Node& /*root*/) {
                const Node& norm = m.node("norm");
                return r.emit_all(Op::kNormModulate, {m["x"], m["scale"], m["shift"]},
                                  {{attr::kEps, norm.attributes[attr::kEps]}}, norm.path);
              }};
}

/// residual + gate * x. After norm_modulate: on sequences of one token, scale, shift and x have one shape, and the
/// shift of a modulated norm would match as a residual.
Fusion gate_residual() {
  return {.pattern = op(Op::kAdd, {any("residual"), op(Op::kMul, {any("gate"), any("x")})}),
          .fits =
              [](const Rewriter& r, const Match& m) {
                return is_float(r.type(m["x"]).dtype) && r.type(m["residual"]) == r.type(m["x"]) &&
                       is_vector_for(r, m["gate"], m["x"]);
              },
          .emit =
              [](Rewriter& r, const Match& m, const Node& root) {
                return r.emit_all(Op::kGateResidual, {m["residual"], m["gate"], m["x"]}, {}, root.path);
              }};
}

int fuse(Graph& graph, const Fusion& fusion) {
  return rewrite_each(graph, [&](Rewriter& r, const Node& node) {
    const auto match = find(r, node, fusion.pattern, [&](const Match& found) { return fusion.fits(r, found); });
    if (!match) return false;
    const std::vector<ValueId> fused = fusion.emit(r, *match, node);
    for (std::size_t i = 0; i < fused.size(); ++i) r.replace(node.results[i], fused[i]);
    return true;
  });
}

PassOutcome fuse_all(Graph& graph, const std::vector<Fusion>& fusions) {
  int rewrites = 0;
  for (const Fusion& fusion : fusions) rewrites += fuse(graph, fusion);
  return {.rewrites = rewrites};
}

}  // namespace

PassOutcome fuse_patterns(Graph& graph, const Target&) { return fuse_all(graph, {norm_modulate(), gate_residual()}); }

}  // namespace headroom
