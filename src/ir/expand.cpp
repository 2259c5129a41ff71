#include "ir/expand.hpp"

#include <array>

#include "base/error.hpp"

namespace headroom {
namespace {

/// The dtype a fused op of x works in beside operands of dtype `other`: the wider, so that no operand is rounded.
DType working_dtype(DType x, DType other) { return size_of(other) > size_of(x) ? other : x; }

ValueId activated(Builder& builder, const std::string& activation, ValueId x) {
  if (activation == "silu") return builder.silu(x);
  if (activation == "gelu") return builder.gelu(x, "none");
  HR_CHECK(activation == "gelu_tanh");
  return builder.gelu(x, "tanh");
}

ValueId expand_linear(Builder& builder, const Attributes& attributes, std::span<const ValueId> in) {
  const ValueId product = builder.emit(Op::kLinear, {in.begin(), in.end()}, {{"tf32", attributes.get_int("tf32")}})[0];
  return activated(builder, attributes.get_text("activation"), product);
}

ValueId expand_scaled_linear(Builder& builder, const Attributes& attributes, std::span<const ValueId> in) {
  const ValueId xq = builder.cast(in[0], DType::kF32);  // [..., k]
  const ValueId wq = builder.cast(in[2], DType::kF32);  // [n, k]
  std::vector<std::int64_t> rows(builder.shape(in[1]).dims().begin(), builder.shape(in[1]).dims().end());
  rows.push_back(1);
  ValueId y = builder.mul(builder.linear(xq, wq), builder.reshape(in[1], std::move(rows)));  // [..., n]
  y = builder.mul(y, in[3]);
  if (in.size() == 5) y = builder.add(y, builder.cast(in[4], DType::kF32));
  if (attributes.get_text("activation") != "none") y = activated(builder, attributes.get_text("activation"), y);
  return builder.cast(y, attributes.get_dtype("dtype"));
}

ValueId expand_attention(Builder& builder, const Attributes& attributes, std::span<const ValueId> in) {
  const ValueId q = builder.mul_scalar(in[0], attributes.get_float("scale"));  // [b, h, s, d]
  const std::int64_t tf32 = attributes.get_int("tf32");
  const ValueId scores =  // [b, h, s, t]
      builder.emit(Op::kMatmul, {q, in[1]}, {{"transpose_b", std::int64_t{1}}, {"tf32", tf32}})[0];
  return builder.emit(Op::kMatmul, {builder.softmax(scores), in[2]}, {{"tf32", tf32}})[0];  // [b, h, s, e]
}

/// layer_norm(x) * (1 + scale) + shift in `working`.
ValueId modulated_norm(Builder& builder, double eps, std::span<const ValueId> in, DType working) {
  const ValueId x = builder.cast(in[0], working);      // [b, s, d]
  const ValueId scale = builder.cast(in[1], working);  // [b, 1, d]
  const ValueId shift = builder.cast(in[2], working);  // [b, 1, d]
  const ValueId normed = builder.layer_norm(x, eps);
  const ValueId scaled = builder.mul(normed, builder.add_scalar(scale, 1.0));
  return builder.add(scaled, shift);  // [b, s, d]
}

ValueId expand_norm_modulate(Builder& builder, const Attributes& attributes, std::span<const ValueId> in) {
  const DType dtype = builder.dtype(in[0]);
  const DType working = working_dtype(dtype, builder.dtype(in[1]));
  return builder.cast(modulated_norm(builder, attributes.get_float("eps"), in, working), dtype);
}

std::vector<ValueId> expand_norm_modulate_quantize(Builder& builder, const Attributes& attributes,
                                                   std::span<const ValueId> in) {
  const DType working = working_dtype(builder.dtype(in[0]), DType::kF32);
  const ValueId normed = modulated_norm(builder, attributes.get_float("eps"), in, working);
  const auto [q, scale] = builder.quantize(normed, attributes.get_dtype("dtype"));
  return {q, scale};
}

/// residual + gate * x in `working`, as the dtype of x.
ValueId gated_sum(Builder& builder, std::span<const ValueId> in, DType working) {
  const DType dtype = builder.dtype(in[0]);
  const ValueId residual = builder.cast(in[0], working);  // [b, s, d]
  const ValueId gate = builder.cast(in[1], working);      // [b, 1, d]
  const ValueId x = builder.cast(in[2], working);         // [b, s, d]
  return builder.cast(builder.add(residual, builder.mul(gate, x)), dtype);
}

ValueId expand_gate_residual(Builder& builder, std::span<const ValueId> in) {
  return gated_sum(builder, in, working_dtype(builder.dtype(in[0]), builder.dtype(in[1])));
}

/// The sum is normalized as it is stored: rounded, which only a cast does.
std::vector<ValueId> expand_gate_residual_norm(Builder& builder, Op op, const Attributes& attributes,
                                               std::span<const ValueId> in) {
  const ValueId sum = gated_sum(builder, in.first(3), working_dtype(builder.dtype(in[0]), DType::kF32));
  const std::array<ValueId, 3> norm = {sum, in[3], in[4]};
  if (op == Op::kGateResidualNorm) return {sum, expand_norm_modulate(builder, attributes, norm)};
  const std::vector<ValueId> quantized = expand_norm_modulate_quantize(builder, attributes, norm);
  return {sum, quantized[0], quantized[1]};
}

ValueId expand_qk_norm_rope(Builder& builder, const Attributes& attributes, std::span<const ValueId> in) {
  const Shape shape = builder.shape(in[0]);  // [b, s, heads*d]
  const std::int64_t heads = attributes.get_int("heads");
  const ValueId split = builder.reshape(in[0], {shape[0], shape[1], heads, shape[2] / heads});
  const ValueId normed = builder.rms_norm(split, in[1], attributes.get_float("eps"));  // [b, s, heads, d]
  const ValueId by_head = builder.transpose(normed, {0, 2, 1, 3});                     // [b, heads, s, d]
  return builder.rope(by_head, in[2], in[3]);
}

}  // namespace

bool is_fused(Op op, const Attributes& attributes) {
  return schema_of(op).fused || (op == Op::kLinear && attributes.get_text("activation") != "none");
}

std::vector<ValueId> expand_node(Builder& builder, Op op, const Attributes& attributes,
                                 std::span<const ValueId> inputs) {
  if (op == Op::kLinear) return {expand_linear(builder, attributes, inputs)};
  if (op == Op::kAttention) return {expand_attention(builder, attributes, inputs)};
  if (op == Op::kScaledLinear) return {expand_scaled_linear(builder, attributes, inputs)};
  if (op == Op::kNormModulate) return {expand_norm_modulate(builder, attributes, inputs)};
  if (op == Op::kNormModulateQuantize) return expand_norm_modulate_quantize(builder, attributes, inputs);
  if (op == Op::kGateResidual) return {expand_gate_residual(builder, inputs)};
  if (op == Op::kGateResidualNorm || op == Op::kGateResidualNormQuantize)
    return expand_gate_residual_norm(builder, op, attributes, inputs);
  if (op == Op::kQkNormRope) return {expand_qk_norm_rope(builder, attributes, inputs)};
  throw std::logic_error(fmt::format("{} is a plain op and has no expansion", name_of(op)));
}

Graph expand(const Graph& graph) {
  Graph expanded = graph;
  std::vector<ValueId> replacement(graph.value_count());
  for (std::size_t i = 0; i < replacement.size(); ++i) replacement[i] = static_cast<ValueId>(i);

  Builder builder(expanded);
  std::vector<Node> schedule;
  for (Node& node : expanded.take_nodes()) {
    for (ValueId& input : node.inputs) input = replacement[index_of(input)];
    if (!is_fused(node.op, node.attributes)) {
      schedule.push_back(std::move(node));
      continue;
    }
    builder.set_path(node.path);
    builder.set_region(node.region);
    const std::vector<ValueId> results = expand_node(builder, node.op, node.attributes, node.inputs);
    HR_CHECK_EQ(results.size(), node.results.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      HR_CHECK(expanded.type(results[i]) == expanded.type(node.results[i]));
      replacement[index_of(node.results[i])] = results[i];
      expanded.replace_uses(node.results[i], results[i]);  // in outputs and state updates; the schedule is taken out
    }
    for (Node& plain : expanded.take_nodes()) schedule.push_back(std::move(plain));
  }
  expanded.set_nodes(std::move(schedule));
  return expanded;
}

}  // namespace headroom
