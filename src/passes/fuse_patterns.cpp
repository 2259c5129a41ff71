// fuse-patterns: a tree of ops that stands below  ->  the fused op beside it
//
// One pass over memory instead of several. Another fusion of this kind is one more row: what it looks for, when it
// fits, and what it puts there. Each row goes over the whole graph before the next does.

#include <array>

#include "passes/pass.hpp"
#include "passes/pattern.hpp"

namespace headroom {
namespace {

struct Fusion {
  Pattern pattern;
  bool (*fits)(const Rewriter& r, const Match& match);
  /// Emits what computes the same as `root`, the last op of the pattern.
  ValueId (*emit)(Rewriter& r, const Match& match, const Node& root);
};

/// Whether `vector` is [b, 1, d] where x is [b, s, d], of the same dtype.
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
                return m.node("one more").attributes.get_float("value") == 1.0 &&
                       is_vector_for(r, m["scale"], m["x"]) && is_vector_for(r, m["shift"], m["x"]);
              },
          .emit =
              [](Rewriter& r, const Match& m, const Node& /*root*/) {
                const Node& norm = m.node("norm");
                return r.emit(Op::kNormModulate, {m["x"], m["scale"], m["shift"]},
                              {{"eps", norm.attributes.get_float("eps")}}, norm.path);
              }};
}

/// residual + gate * x. After norm_modulate: on sequences of one token scale, shift and x have one shape, and the shift
/// of a modulated norm would pass for a residual.
Fusion gate_residual() {
  return {.pattern = op(Op::kAdd, {any("residual"), op(Op::kMul, {any("gate"), any("x")})}),
          .fits =
              [](const Rewriter& r, const Match& m) {
                return r.type(m["residual"]) == r.type(m["x"]) && is_vector_for(r, m["gate"], m["x"]);
              },
          .emit =
              [](Rewriter& r, const Match& m, const Node& root) {
                return r.emit(Op::kGateResidual, {m["residual"], m["gate"], m["x"]}, {}, root.path);
              }};
}

}  // namespace

PassOutcome fuse_patterns(Graph& graph, const Target&) {
  static const std::array kFusions = {norm_modulate(), gate_residual()};
  int rewrites = 0;
  for (const Fusion& fusion : kFusions)
    rewrites += rewrite_each(graph, [&](Rewriter& r, const Node& node) {
      const auto fits = [&](const Match& match) { return fusion.fits(r, match); };
      const std::optional<Match> match = find(r, node, fusion.pattern, fits);
      if (match) r.replace(node.results[0], fusion.emit(r, *match, node));
      return match.has_value();
    });
  return {.rewrites = rewrites, .declined = {}};
}

}  // namespace headroom
