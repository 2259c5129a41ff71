#include <algorithm>
#include <array>

#include "ir/builder.hpp"
#include "ir/ops/families.hpp"
#include "ir/test_cases/op_cases.hpp"

// Fused ops of diffusion transformers.

namespace headroom::ops {
namespace {

/// Whether `vector` is [batch, 1, d] for x[batch, seq, d].
bool is_per_sample(const TensorType& vector, const TensorType& x) {
  return vector.shape == Shape{x.shape[0], 1, x.shape[2]} && is_vector_dtype(vector.dtype, x.dtype);
}

/// `vectors` are scale and shift.
void require_modulated_norm(const TypeQuery& given, Types vectors) {
  const TensorType& x = given.in[0];
  given.require(is_float(x.dtype) && x.shape.rank() == 3 && is_per_sample(vectors[0], x) &&
                    is_per_sample(vectors[1], x) && vectors[0].dtype == vectors[1].dtype,
                "x[b, s, d], scale[b, 1, d] and shift[b, 1, d] (the last two in the dtype of x or f32)");
}

std::vector<TensorType> norm_modulate_types(const TypeQuery& given) {
  require_modulated_norm(given, given.in.subspan(1));
  return {given.in[0]};
}

/// The sum of residual, gate and x.
std::vector<TensorType> gate_residual_types(const TypeQuery& given) {
  const TensorType& residual = given.in[0];
  given.require(is_float(residual.dtype) && residual.shape.rank() == 3 && is_per_sample(given.in[1], residual) &&
                    given.in[2].shape == residual.shape && given.in[2].dtype == residual.dtype,
                "residual[b, s, d], gate[b, 1, d] (in the dtype of x or f32) and x[b, s, d]");
  return {residual};
}

std::vector<TensorType> qk_norm_rope_types(const TypeQuery& given) {
  const TensorType& x = given.in[0];
  const std::int64_t heads = given.attributes[attr::kHeads];
  constexpr std::string_view kForm =
      "x[b, s, heads*d], weight[d] (in the dtype of x or f32), f32 cos[s, d/2] and sin[s, d/2]";
  given.require(is_float(x.dtype) && x.shape.rank() == 3 && heads > 0 && x.shape[2] % heads == 0, kForm);
  const std::int64_t head_dim = x.shape[2] / heads;
  given.require(given.in[1].shape == Shape{head_dim} && is_vector_dtype(given.in[1].dtype, x.dtype) &&
                    are_rope_tables(given.in[2], given.in[3], x.shape[1], head_dim),
                kForm);
  return {{x.dtype, Shape{x.shape[0], heads, x.shape[1], head_dim}}};
}

/// The dtype in which a fused op computes for x and operands of dtype `other`: the wider one, so that no operand is
/// rounded.
DType working_dtype(DType x, DType other) { return size_of(other) > size_of(x) ? other : x; }

/// layer_norm(x) * (1 + scale) + shift in `working`.
ValueId modulated_norm(Builder& builder, double eps, std::span<const ValueId> in, DType working) {
  const ValueId x = builder.cast(in[0], working);      // [b, s, d]
  const ValueId scale = builder.cast(in[1], working);  // [b, 1, d]
  const ValueId shift = builder.cast(in[2], working);  // [b, 1, d]
  const ValueId normed = builder.layer_norm(x, eps);
  const ValueId scaled = builder.mul(normed, builder.add_scalar(scale, 1.0));
  return builder.add(scaled, shift);  // [b, s, d]
}

std::vector<ValueId> norm_modulate(Builder& builder, const Attributes& attributes, std::span<const ValueId> in) {
  const DType dtype = builder.dtype(in[0]);
  const DType working = working_dtype(dtype, builder.dtype(in[1]));
  return {builder.cast(modulated_norm(builder, attributes[attr::kEps], in, working), dtype)};
}

/// residual + gate * x in `working`, as the dtype of x.
ValueId gated_sum(Builder& builder, std::span<const ValueId> in, DType working) {
  const DType dtype = builder.dtype(in[0]);
  const ValueId residual = builder.cast(in[0], working);  // [b, s, d]
  const ValueId gate = builder.cast(in[1], working);      // [b, 1, d]
  const ValueId x = builder.cast(in[2], working);         // [b, s, d]
  return builder.cast(builder.add(residual, builder.mul(gate, x)), dtype);
}

std::vector<ValueId> gate_residual(Builder& builder, const Attributes& /*attributes*/, std::span<const ValueId> in) {
  return {gated_sum(builder, in, working_dtype(builder.dtype(in[0]), builder.dtype(in[1])))};
}

std::vector<ValueId> qk_norm_rope(Builder& builder, const Attributes& attributes, std::span<const ValueId> in) {
  const Shape shape = builder.shape(in[0]);  // [b, s, heads*d]
  const std::int64_t heads = attributes[attr::kHeads];
  const ValueId split = builder.reshape(in[0], {shape[0], shape[1], heads, shape[2] / heads});
  const ValueId normed = builder.rms_norm(split, in[1], attributes[attr::kEps]);  // [b, s, heads, d]
  const ValueId by_head = builder.transpose(normed, {0, 2, 1, 3});                // [b, heads, s, d]
  return {builder.rope(by_head, in[2], in[3])};
}

constexpr int kGateFlops = 2, kNormFlops = 6 + 2;

void norm_modulate_cases(CaseList& list) {
  for (const std::int64_t columns : {17, 64}) {
    const TensorType x = list.data({2, 5, columns}), per_sample = list.vector({2, 1, columns});
    list.add(fmt::format("rows of {}", columns), {x, per_sample, per_sample}, {{attr::kEps, 1e-6}});
  }
}

void gate_residual_cases(CaseList& list) {
  const TensorType x = list.data({3, 5, 33});
  list.add("rows of 33", {x, list.vector({3, 1, 33}), x});
}

void qk_norm_rope_cases(CaseList& list) {
  const TensorType table{DType::kF32, {5, 16}};
  list.add("3 heads of 32", {list.data({2, 5, 3 * 32}), list.vector({32}), table, table},
           {{attr::kHeads, 3}, {attr::kEps, 1e-6}});
}

void add_unfused_too(CaseList& list, std::vector<TensorType> inputs, NamedAttributes attributes,
                     std::vector<bool> is_weight = {}) {
  std::string name = fmt::format("{} {}", name_of(list.op()), name_of(inputs[0].dtype));
  list.add(std::move(name), std::move(inputs), std::move(attributes), std::move(is_weight)).apart = "unfused";
}

void large_token_cases(CaseList& list) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const TensorType tokens = large_tokens(dtype), vector{dtype, {1, 1, kLargeWidth}};
    if (list.op() == Op::kGateResidual)
      add_unfused_too(list, {tokens, vector, tokens}, {});
    else
      add_unfused_too(list, {tokens, vector, vector}, {{attr::kEps, 1e-6}});
  }
}

void large_qk_norm_rope_cases(CaseList& list) {
  constexpr std::int64_t kDim = kLargeWidth / kLargeHeads;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const TensorType tokens = large_tokens(dtype), table{DType::kF32, {tokens.shape[1], kDim / 2}};
    add_unfused_too(list, {tokens, {dtype, {kDim}}, table, table}, {{attr::kHeads, kLargeHeads}, {attr::kEps, 1e-6}},
                    {false, true});
  }
}

/// For tokens [b, s, d] and one vector per sample.
constexpr OpDefinition of_tokens(Op op, decltype(OpDefinition::infer) infer, decltype(OpDefinition::expand) expand,
                                 Flops::Rule flops, decltype(OpDefinition::cases) cases) {
  return {.op = op,
          .kind = OpKind::kOther,
          .infer = infer,
          .expand = expand,
          .flops = flops,
          .samples = Samples::kEvery,
          .goes_along_rows = true,
          .cases = cases,
          .benchmarks = large_token_cases};
}

constexpr std::array kTransformers = {
    of_tokens(Op::kNormModulate, norm_modulate_types, norm_modulate, for_each_input<kNormFlops>, norm_modulate_cases),
    of_tokens(Op::kGateResidual, gate_residual_types, gate_residual, for_each_input<kGateFlops>, gate_residual_cases),
    OpDefinition{.op = Op::kQkNormRope,
                 .kind = OpKind::kOther,
                 .infer = qk_norm_rope_types,
                 .expand = qk_norm_rope,
                 .flops = 4.0 + 3.0,
                 .samples = Samples::kBatched,
                 .cases = qk_norm_rope_cases,
                 .benchmarks = large_qk_norm_rope_cases},
};

}  // namespace

std::span<const OpDefinition> transformers() { return kTransformers; }

}  // namespace headroom::ops
