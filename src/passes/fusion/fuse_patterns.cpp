// fuse-patterns, fuse-quantized-patterns: the tree of ops in a pattern  ->  the fused op given next to it
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

/// linear(x, weight) + bias[n], as in graphs exported op by op. The result of the matmul is then not rounded before
/// the bias is added.
Fusion linear_bias() {
  return {.pattern = op(Op::kAdd, {op(Op::kLinear, {any("x"), any("weight")}, "linear"), any("bias")}),
          .fits =
              [](const Rewriter& r, const Match& m) {
                return m.node("linear").attributes[attr::kEpilogue].is_empty() && r.is_weight(m["bias"]) &&
                       r.type(m["bias"]).shape == Shape{r.type(m["weight"]).shape[0]};
              },
          .emit =
              [](Rewriter& r, const Match& m, const Node& /*root*/) {
                const Node& linear = m.node("linear");
                return std::vector{r.emit_with(linear, {{Role::kBias, m["bias"]}})};
              }};
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

/// residual + conv2d(x, weight, bias)
Fusion conv_residual() {
  return {.pattern = op(Op::kAdd, {any("residual"), op(Op::kConv2d, {any("x"), any("weight"), any("bias")}, "conv")}),
          .fits =
              [](const Rewriter& r, const Match& m) {
                const Node& conv = m.node("conv");
                return conv.attributes[attr::kActivation] == Activation::kNone &&
                       r.type(m["residual"]) == r.type(conv.results[0]);
              },
          .emit =
              [](Rewriter& r, const Match& m, const Node& /*root*/) {
                const Node& conv = m.node("conv");
                return std::vector{r.emit_with(conv, {{Role::kResidual, m["residual"]}})};
              }};
}

Pattern quantized_matmul() {
  return op(Op::kScaledLinear, {any("xq"), any("x_scale"), any("wq"), any("w_scale"), any("bias")}, "matmul");
}

ValueId emit_with_residual(Rewriter& r, const Match& m, ValueId w_scale, ValueId bias) {
  const Node& matmul = m.node("matmul");
  return r.emit_with(matmul, {{Role::kWeightScale, w_scale}, {Role::kBias, bias}, {Role::kResidual, m["residual"]}});
}

/// A value added to an 8-bit matmul in its epilogue, which reads the residual while the tensor cores work. This
/// replaces a pass over memory.
bool is_residual_of(const Rewriter& r, ValueId residual, const Node& matmul) {
  return matmul.attributes[attr::kActivation] == Activation::kNone && r.type(residual) == r.type(matmul.results[0]) &&
         r.type(matmul.input(Role::kX)).dtype == DType::kF8E4M3;
}

/// residual + scaled_linear(xq, x_scale, wq, w_scale, bias)
Fusion matmul_residual() {
  return {.pattern = op(Op::kAdd, {any("residual"), quantized_matmul()}),
          .fits = [](const Rewriter& r, const Match& m) { return is_residual_of(r, m["residual"], m.node("matmul")); },
          .emit = [](Rewriter& r, const Match& m,
                     const Node& /*root*/) { return std::vector{emit_with_residual(r, m, m["w_scale"], m["bias"])}; }};
}

/// residual + gate * scaled_linear(xq, x_scale, wq, w_scale, bias) -> the same with w_scale * gate and bias * gate,
/// if all rows have one gate: its elements belong to the columns of the matmul, like those of w_scale.
Fusion matmul_gate_residual() {
  return {
      .pattern = op(Op::kGateResidual, {any("residual"), any("gate"), quantized_matmul()}),
      .fits =
          [](const Rewriter& r, const Match& m) {
            return is_residual_of(r, m["residual"], m.node("matmul")) && r.shape(m["gate"])[0] == 1;
          },
      .emit =
          [](Rewriter& r, const Match& m, const Node& /*root*/) {
            const std::string& path = m.node("matmul").path;
            const auto cast = [&](ValueId value, DType dtype) {
              return r.type(value).dtype == dtype ? value : r.emit(Op::kCast, {value}, {{attr::kDType, dtype}}, path);
            };
            const std::vector<std::int64_t> columns{r.shape(m["w_scale"])[0]};
            const ValueId gate = cast(r.emit(Op::kReshape, {m["gate"]}, {{attr::kShape, columns}}, path), DType::kF32);
            const ValueId scale = r.emit(Op::kMul, {m["w_scale"], gate}, {}, path);
            const ValueId bias = r.emit(Op::kMul, {cast(m["bias"], DType::kF32), gate}, {}, path);
            return std::vector{emit_with_residual(r, m, scale, cast(bias, r.type(m["bias"]).dtype))};
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

PassOutcome fuse_patterns(Graph& graph, const Target&) {
  return fuse_all(graph, {linear_bias(), norm_modulate(), gate_residual(), conv_residual()});
}

PassOutcome fuse_quantized_patterns(Graph& graph, const Target&) {
  return fuse_all(graph, {matmul_residual(), matmul_gate_residual()});
}

}  // namespace headroom
