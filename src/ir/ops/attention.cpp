#include "ir/ops/attention.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.hpp"
#include "base/tensors/divide_up.hpp"
#include "ir/builder.hpp"
#include "ir/ops/families.hpp"
#include "ir/ops/gradient_parts.hpp"
#include "ir/test_cases/attention_sizes.hpp"
#include "ir/test_cases/op_cases.hpp"

// Attention and the merging of its parts, and the plain ops that define them.

namespace headroom::ops {
namespace {

constexpr std::int64_t kValueKeys = 128;  // a multiple of which quantized values have keys

/// Whether its shape is [b or 1, h or 1, s or 1, t].
bool broadcasts_to_scores(const Shape& shape, const Shape& scores) {
  if (shape.rank() != 4 || shape[3] != scores[3]) return false;
  for (int axis = 0; axis < 3; ++axis)
    if (shape[axis] != 1 && shape[axis] != scores[axis]) return false;
  return true;
}

std::vector<TensorType> attention_types(const TypeQuery& given) {
  const DType dtype = given.in[0].dtype;
  const Shape& q = given.in[0].shape;
  const Shape& k = given.in[1].shape;
  const Shape& v = given.in[2].shape;
  const bool fits = is_float(dtype) && given.in[1].dtype == dtype && given.in[2].dtype == dtype && q.rank() == 4 &&
                    k.rank() == 4 && v.rank() == 4 && k[1] > 0 && q[1] % k[1] == 0 &&
                    k == Shape{q[0], k[1], k[2], q[3]} && v == Shape{q[0], k[1], k[2], v[3]};
  given.require(fits, "q[b, h, s, d], k[b, g, t, d] and v[b, g, t, e] of one floating-point dtype, h a multiple of g");
  if (given.in.size() == 4)
    given.require((given.in[3].dtype == dtype || given.in[3].dtype == DType::kBool) &&
                      broadcasts_to_scores(given.in[3].shape, Shape{q[0], q[1], q[2], k[2]}),
                  "a bias[b or 1, h or 1, s or 1, t] in the dtype of q, or a mask of bool");
  given.require(given.attributes[attr::kCausal] || given.attributes[attr::kDiagonal] == 0,
                "a diagonal only where causal is 1");
  std::vector<TensorType> types = {{dtype, Shape{q[0], q[1], q[2], v[3]}}};
  if (given.attributes[attr::kLogsumexp]) types.push_back({DType::kF32, Shape{q[0], q[1], q[2]}});
  return types;
}

/// x[b, g, t, d] with each head repeated for the query heads that it serves.
ValueId repeat_heads(Builder& builder, ValueId x, std::int64_t heads) {
  const Shape shape = builder.shape(x);
  if (shape[1] == heads) return x;
  const std::int64_t times = heads / shape[1];
  const ValueId split = builder.reshape(x, {shape[0], shape[1], 1, shape[2], shape[3]});
  const ValueId repeated = builder.broadcast(split, Shape{shape[0], shape[1], times, shape[2], shape[3]});
  return builder.reshape(repeated, {shape[0], heads, shape[2], shape[3]});
}

/// The values added to the scores: 0 where `sees` is true, -inf elsewhere.
ValueId bias_of_mask(Builder& builder, ValueId sees, DType dtype) {
  const ValueId table = builder.constant({-std::numeric_limits<double>::infinity(), 0}, Shape{2}, dtype);
  return builder.gather(table, builder.cast(sees, DType::kI32));
}

/// The causal mask: bool [queries, keys], true for keys up to the diagonal.
ValueId causal_mask(Builder& builder, std::int64_t queries, std::int64_t keys, std::int64_t diagonal) {
  std::vector<double> places(static_cast<std::size_t>(keys)), last(static_cast<std::size_t>(queries));
  std::iota(places.begin(), places.end(), 0.0);
  std::iota(last.begin(), last.end(), static_cast<double>(diagonal));
  return builder.less_equal(builder.constant(std::move(places), Shape{keys}, DType::kI32),
                            builder.constant(std::move(last), Shape{queries, 1}, DType::kI32));
}

/// Appends a column to the scores that matters only if all others are -inf: softmax then has a finite entry.
ValueId with_lowest(Builder& builder, ValueId scores) {
  const DType dtype = builder.dtype(scores);
  Shape shape = builder.shape(scores);
  shape.set(3, 1);
  const double lowest = dtype == DType::kF16 ? -65504 : -3e38;
  return builder.concat({scores, builder.constant({lowest}, shape, dtype)}, 3);
}

/// log(sum(exp(scores))) in f32, where some queries may see no key; `guarded` are the scores with a finite one added.
ValueId logsumexp(Builder& builder, ValueId scores, ValueId guarded, bool may_see_none) {
  const ValueId most = builder.amax(guarded, {3});  // [b, h, s]
  const Shape shape = builder.shape(most);
  const ValueId column = builder.reshape(most, {shape[0], shape[1], shape[2], 1});
  const ValueId powers = builder.emit(Op::kExp, {builder.sub(scores, column)})[0];
  const ValueId total = builder.sum(powers, {3});
  ValueId log = kNoValue;
  if (may_see_none) {  // a choice, so that a query without keys has the gradient 0, not 0 times infinity
    const auto number = [&](double value) { return builder.constant({value}, Shape{}, builder.dtype(total)); };
    const ValueId sees_none = builder.equal(total, number(0));
    log = builder.where(sees_none, number(-std::numeric_limits<double>::infinity()),
                        builder.log(builder.where(sees_none, number(1), total)));
  } else {
    log = builder.log(total);
  }
  return builder.cast(builder.add(most, log), DType::kF32);
}

std::vector<ValueId> expand_attention(Builder& builder, const Attributes& attributes, std::span<const ValueId> in) {
  const DType dtype = builder.dtype(in[0]);
  const bool tf32 = attributes[attr::kTf32];
  const std::int64_t heads = builder.shape(in[0])[1];
  const ValueId q = builder.mul_scalar(in[0], attributes[attr::kScale]);  // [b, h, s, d]
  const ValueId k = repeat_heads(builder, in[1], heads);                  // [b, h, t, d]
  const ValueId v = repeat_heads(builder, in[2], heads);                  // [b, h, t, e]
  ValueId scores =                                                        // [b, h, s, t]
      builder.emit(Op::kMatmul, {q, k}, {{attr::kTransposeB, true}, {attr::kTf32, tf32}})[0];
  const Shape shape = builder.shape(scores);
  if (in.size() == 4)
    scores = builder.add(scores, builder.dtype(in[3]) == DType::kBool ? bias_of_mask(builder, in[3], dtype) : in[3]);
  const std::int64_t diagonal = diagonal_of(attributes, shape[2], shape[3]);
  if (attributes[attr::kCausal])  // a choice, so that a NaN does not count where it is not seen
    scores = builder.where(causal_mask(builder, shape[2], shape[3], diagonal), scores,
                           builder.constant({-std::numeric_limits<double>::infinity()}, Shape{}, dtype));

  const bool may_see_none = in.size() == 4 || diagonal < 0;
  const ValueId guarded = may_see_none ? with_lowest(builder, scores) : scores;
  ValueId p = builder.softmax(guarded);
  if (may_see_none) p = builder.slice(p, 3, 0, shape[3]);
  std::vector<ValueId> results = {builder.emit(Op::kMatmul, {p, v}, {{attr::kTf32, tf32}})[0]};  // [b, h, s, e]
  if (attributes[attr::kLogsumexp]) results.push_back(logsumexp(builder, scores, guarded, may_see_none));
  return results;
}

/// The rule keeps no scores: the kernel of the gradient computes them anew from the logarithms of their sums.
bool has_gradient_kernel(const Attributes& attributes, std::size_t operands) {
  return attributes[attr::kLogsumexp] && operands == 3;
}

std::vector<ValueId> derive_attention(Builder& builder, const Derivation& node) {
  const DType working = summing_dtype(builder.dtype(node.in[0]));
  const ValueId made =
      node.gradients[0] != kNoValue ? node.gradients[0] : zeros(builder, builder.graph().type(node.out[0]));
  ValueId delta = builder.sum(builder.mul(builder.cast(made, working), builder.cast(node.out[0], working)), {3});
  if (node.gradients[1] != kNoValue) delta = builder.sub(delta, builder.cast(node.gradients[1], working));
  return builder.emit(Op::kAttentionBackward,
                      {node.in[0], node.in[1], node.in[2], made, node.out[1], builder.cast(delta, DType::kF32)},
                      {{attr::kScale, node.attributes[attr::kScale]},
                       {attr::kCausal, node.attributes[attr::kCausal]},
                       {attr::kDiagonal, node.attributes[attr::kDiagonal]},
                       {attr::kTf32, node.attributes[attr::kTf32]}});
}

std::vector<TensorType> attention_backward_types(const TypeQuery& given) {
  const std::vector<TensorType> made =
      attention_types({Op::kAttentionBackward,
                       Attributes(Op::kAttention, {{attr::kScale, given.attributes[attr::kScale]},
                                                   {attr::kCausal, given.attributes[attr::kCausal]},
                                                   {attr::kDiagonal, given.attributes[attr::kDiagonal]},
                                                   {attr::kLogsumexp, true}}),
                       given.in.first(3)});
  given.require(given.in[3] == made[0] && given.in[4] == made[1] && given.in[5] == made[1],
                "q[b, h, s, d], k[b, g, t, d], v[b, g, t, e] and d_out[b, h, s, e] of one floating-point dtype, and "
                "logsumexp[b, h, s] and delta[b, h, s] in f32");
  return {given.in[0], given.in[1], given.in[2]};
}

/// x[b, h, t, d] summed over the query heads that share a head of `type`.
ValueId sum_of_sharers(Builder& builder, ValueId x, const TensorType& type) {
  const Shape all = builder.shape(x);
  if (all == type.shape) return x;
  const std::int64_t groups = type.shape[1];
  const ValueId split = builder.reshape(x, {all[0], groups, all[1] / groups, all[2], all[3]});
  return summed(builder, split, {2}, type.dtype);
}

std::vector<ValueId> expand_attention_backward(Builder& builder, const Attributes& attributes,
                                               std::span<const ValueId> in) {
  const DType dtype = builder.dtype(in[0]), working = summing_dtype(dtype);
  const bool tf32 = attributes[attr::kTf32];
  const double scale = attributes[attr::kScale];
  const std::int64_t heads = builder.shape(in[0])[1];
  const auto matmul = [&](ValueId a, ValueId b, bool transpose_a, bool transpose_b) {
    return builder.emit(Op::kMatmul, {a, b},
                        {{attr::kTransposeA, transpose_a}, {attr::kTransposeB, transpose_b}, {attr::kTf32, tf32}})[0];
  };
  const auto column = [&](ValueId rows) {  // [b, h, s, 1]
    const Shape shape = builder.shape(rows);
    return builder.cast(builder.reshape(rows, {shape[0], shape[1], shape[2], 1}), working);
  };
  const ValueId q = builder.mul_scalar(in[0], scale);     // [b, h, s, d]
  const ValueId k = repeat_heads(builder, in[1], heads);  // [b, h, t, d]
  const ValueId v = repeat_heads(builder, in[2], heads);  // [b, h, t, e]
  const ValueId d_out = in[3];
  const ValueId scores = matmul(q, k, false, true);  // [b, h, s, t]
  const Shape shape = builder.shape(scores);
  ValueId p = builder.exp(builder.sub(builder.cast(scores, working), column(in[4])));
  ValueId d_s = builder.mul(p, builder.sub(builder.cast(matmul(d_out, v, false, true), working), column(in[5])));
  if (attributes[attr::kCausal]) {  // choices, so that a NaN does not count where it is not seen
    const std::int64_t diagonal = diagonal_of(attributes, shape[2], shape[3]);
    const ValueId sees = causal_mask(builder, shape[2], shape[3], diagonal);
    const ValueId zero = builder.constant({0}, Shape{}, working);
    p = builder.where(sees, p, zero);
    d_s = builder.where(sees, d_s, zero);
  }
  p = builder.cast(p, dtype);
  d_s = builder.cast(d_s, dtype);
  return {builder.mul_scalar(matmul(d_s, k, false, false), scale),
          sum_of_sharers(builder, matmul(d_s, q, true, false), builder.graph().type(in[1])),
          sum_of_sharers(builder, matmul(p, d_out, true, false), builder.graph().type(in[2]))};
}

/// Five matmuls over the visible keys.
double attention_backward_flops(const Attributes& attributes, Types in, Types /*out*/) {
  const Shape& q = in[0].shape;  // [b, h, s, d]
  const Shape& v = in[2].shape;  // [b, g, t, e]
  const double pairs = visible_pairs(q[2], v[2], diagonal_of(attributes, q[2], v[2]));
  return 2 * static_cast<double>(q[0] * q[1]) * pairs * static_cast<double>(3 * q[3] + 2 * v[3]);
}

/// Both matmuls, over the visible keys. The softmax between them is not counted.
double attention_flops(const Attributes& attributes, Types in, Types /*out*/) {
  const Shape& q = in[0].shape;  // [b, h, s, d]
  const Shape& v = in[2].shape;  // [b, g, t, e]
  const double pairs = visible_pairs(q[2], v[2], diagonal_of(attributes, q[2], v[2]));
  return 2 * static_cast<double>(q[0] * q[1]) * pairs * static_cast<double>(q[3] + v[3]);
}

std::vector<TensorType> merge_types(const TypeQuery& given) {
  const auto& [dtype, x, layout] = given.in[0];
  const std::int64_t axis = given.attributes[attr::kAxis];
  Shape rows, merged;  // x without its last axis, and without that of the parts
  for (int k = 0; k < x.rank(); ++k) {
    if (k + 1 < x.rank()) rows.push_back(x[k]);
    if (k != axis) merged.push_back(x[k]);
  }
  given.require(is_float(dtype) && x.rank() >= 2 && given.in[1] == TensorType{DType::kF32, rows},
                "x[..., e] of a floating-point dtype and logsumexp[...] in f32");
  if (axis < 0 || axis >= rows.rank())
    fail("merge_attention: axis must be in 0..{} for {}, but was given {}", rows.rank() - 1, given.in[0], axis);
  given.require(x[static_cast<int>(axis)] > 0, "a part at least");
  std::vector<TensorType> types = {{dtype, merged}};
  if (given.attributes[attr::kLogsumexp]) {
    Shape sums;
    for (int k = 0; k + 1 < merged.rank(); ++k) sums.push_back(merged[k]);
    types.push_back({DType::kF32, sums});
  }
  return types;
}

/// Exponentials are relative to the largest of the logarithms, or to 0 if no part saw a key.
std::vector<ValueId> expand_merge(Builder& builder, const Attributes& attributes, std::span<const ValueId> in) {
  const DType dtype = builder.dtype(in[0]), working = dtype == DType::kF64 ? dtype : DType::kF32;
  const std::int64_t axis = attributes[attr::kAxis];
  const auto number = [&](double value) { return builder.constant({value}, Shape{}, working); };
  const auto reshaped = [&](ValueId from, const Shape& to) {
    return builder.reshape(from, {to.dims().begin(), to.dims().end()});
  };
  const auto column = [&](ValueId rows) {
    Shape shape = builder.shape(rows);
    shape.push_back(1);
    return reshaped(rows, shape);
  };
  const ValueId none = number(-std::numeric_limits<double>::infinity()), zero = number(0);
  const ValueId logs = builder.cast(in[1], working);  // [a..., p, c...]
  const ValueId most = builder.amax(logs, {axis});    // [a..., c...]
  const ValueId sees_none = builder.equal(most, none);
  const ValueId reference = builder.where(sees_none, zero, most);
  Shape one_part = builder.shape(logs);
  one_part.set(static_cast<int>(axis), 1);
  const ValueId weights = builder.exp(builder.sub(logs, reshaped(reference, one_part)));
  const ValueId total = builder.sum(weights, {axis});
  const ValueId x = builder.where(column(builder.equal(logs, none)), zero, builder.cast(in[0], working));
  const ValueId sum = builder.sum(builder.mul(x, column(weights)), {axis});  // [a..., c..., e]
  const ValueId divisor = builder.where(sees_none, number(1), total);
  std::vector<ValueId> results = {builder.cast(builder.div(sum, column(divisor)), dtype)};
  if (attributes[attr::kLogsumexp])
    results.push_back(
        builder.cast(builder.where(sees_none, none, builder.add(reference, builder.log(divisor))), DType::kF32));
  return results;
}

/// Probabilities, and in kernels of several launches scores, are rounded to the dtype before the second matmul. So is a
/// logarithm of sums then, which is stored in f32.
Tolerance attention_tolerance(DType dtype, bool has_logsumexp) {
  if (dtype == DType::kF32) return {.relative_l2 = 4e-6};
  const double ulps = has_logsumexp ? 4 * epsilon_of(dtype) / epsilon_of(DType::kF32) : 4;
  return {.relative_l2 = dtype == DType::kBF16 ? 1.2e-2 : 3e-3, .max_ulps_of_peak = ulps};
}

/// The effect of a masked key is open: kernels may skip it, and the definition multiplies it by a weight of 0.
bool opens_keys(std::size_t input, Special special) { return (input == 1 || input == 2) && special != Special::kZeros; }

/// The same where some queries see no key: one that sees only scores of -infinity may get 0 or NaN.
bool opens_keys_and_infinities(std::size_t input, Special special) {
  return special == Special::kInfinities || opens_keys(input, special);
}

void attention_cases(CaseList& list) {
  for (const std::int64_t dim : {16, 64, 72})
    for (const bool has_logsumexp : {false, true}) {
      const TensorType q = list.data({1, 2, 9, dim}), k = list.data({1, 2, 40, dim});
      NamedAttributes attributes = {{attr::kScale, 0.3}, {attr::kLogsumexp, has_logsumexp}};
      const auto name = [&](std::string_view what) {
        return fmt::format("heads of {}{}{}", dim, what, has_logsumexp ? ", logsumexp" : "");
      };
      list.add(name(""), {q, k, k}, attributes);
      list.add(name(", bias"), {q, k, k, list.data({1, 2, 9, 40})}, attributes);
      list.add(name(", mask"), {q, k, k, {DType::kBool, {1, 1, 9, 40}}}, attributes).leaves_open = opens_keys;
      attributes.emplace_back(attr::kCausal, true);
      list.add(name(", causal"), {k, k, k}, attributes).leaves_open = opens_keys;
      for (const std::int64_t diagonal : {20, -20}) {
        NamedAttributes moved = attributes;
        moved.emplace_back(attr::kDiagonal, diagonal);
        list.add(name(fmt::format(", causal, diagonal {}", diagonal)), {k, k, k}, std::move(moved)).leaves_open =
            diagonal < 0 ? opens_keys_and_infinities : opens_keys;
      }
    }
  const TensorType q = list.data({1, 2, 64, 64}), keys = list.data({1, 2, 128, 64});
  list.add("whole tiles", {q, keys, keys}, {{attr::kScale, 0.125}});
  list.add("4 query heads per key head", {list.data({1, 8, 64, 64}), keys, keys}, {{attr::kScale, 0.125}});
  for (OpCase& one : list)
    one.tolerance = attention_tolerance(list.types().data, one.spec.attributes[attr::kLogsumexp]);
}

NamedAttributes usual_scale(std::int64_t head_dim) {
  return {{attr::kScale, 1 / std::sqrt(static_cast<double>(head_dim))}};
}

/// Attention of token transformers, also as the plain ops, which materialize the scores.
void add_token_benchmarks(CaseList& list) {
  struct Tokens {
    std::int64_t batch, heads, tokens, head_dim;
  };
  const auto add = [&](DType dtype, const Tokens& t) -> OpCase& {
    const TensorType operand{dtype, {t.batch, t.heads, t.tokens, t.head_dim}};
    return list.add(fmt::format("attention {} of {}x{} heads, {} tokens of {}", name_of(dtype), t.batch, t.heads,
                                t.tokens, t.head_dim),
                    {operand, operand, operand}, usual_scale(t.head_dim));
  };
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const Tokens& tokens : {Tokens{20, 3, 272, 64}, {1, 2, 1024, 64}, {1, 2, 4096, 64}, {1, 2, 4096, 128}})
      add(dtype, tokens).apart = "standard";
  add(DType::kBF16, {1, kLargeHeads, 4608, 128});
}

/// Attention layers of U-Nets, with heads of 64 except Stable Diffusion 1.5's: self-attention of pixels,
/// cross-attention with 77 text tokens, and with the 32 rows of LiveStreamUNet's memory.
void add_unet_benchmarks(CaseList& list) {
  struct Layer {
    std::string_view network;
    std::int64_t batch, heads, queries, keys, dim = 64;
  };
  constexpr std::int64_t kText = 77, kMemory = 32;
  for (const Layer& layer : {Layer{"SD-Turbo", 1, 5, 4096, 4096},
                             {"SD-Turbo", 1, 10, 1024, 1024},
                             {"SD-Turbo", 1, 20, 256, 256},
                             {"SD-Turbo", 1, 20, 64, 64},
                             {"SD-Turbo", 1, 5, 4096, kText},
                             {"SD-Turbo", 1, 10, 1024, kText},
                             {"SD-Turbo", 1, 20, 256, kText},
                             {"SD 1.5", 2, 8, 4096, 4096, 40},
                             {"SDXL", 2, 10, 4096, 4096},
                             {"SDXL", 2, 20, 1024, 1024},
                             {"SDXL", 2, 10, 4096, kText},
                             {"SDXL", 2, 20, 1024, kText},
                             {"LiveStreamUNet", 1, 12, 256, 256 + kMemory},
                             {"LiveStreamUNet", 1, 40, 64, 64 + kMemory},
                             {"pixel U-Net", 1, 6, 1024, 1024},
                             {"pixel U-Net", 1, 18, 256, 256},
                             {"pixel U-Net", 1, 24, 64, 64}}) {
    const TensorType keys{DType::kF16, {layer.batch, layer.heads, layer.keys, layer.dim}};
    list.add(fmt::format("attention f16 of {}x{} heads, {} and {} tokens of {}, {}", layer.batch, layer.heads,
                         layer.queries, layer.keys, layer.dim, layer.network),
             {{DType::kF16, {layer.batch, layer.heads, layer.queries, layer.dim}}, keys, keys}, usual_scale(layer.dim));
  }
}

/// Sequences of many lengths, dense and causal, T5-XXL's attention with its bias for each head, and what 8 bits are
/// compared with.
void add_length_benchmarks(CaseList& list) {
  struct Length {
    std::int64_t heads, tokens, dim = 128;
    bool causal = false;
  };
  const auto add = [&](std::string name, std::vector<TensorType> operands, NamedAttributes attributes) {
    list.add(std::move(name), std::move(operands), std::move(attributes)).is_for_gpus = true;
  };
  for (const Length& length : {Length{kLargeHeads, 1536},
                               {kLargeHeads, 4112},
                               {16, 2048},
                               {16, 8192},
                               {16, 32768},
                               {16, 131072},
                               {16, 2048, 128, true},
                               {16, 8192, 128, true},
                               {16, 32768, 128, true},
                               {32, 4096, 64},
                               {16, 16384, 64},
                               {32, 4096, 64, true},
                               {16, 16384, 64, true}}) {
    const TensorType operand{DType::kBF16, {1, length.heads, length.tokens, length.dim}};
    NamedAttributes attributes = usual_scale(length.dim);
    attributes.emplace_back(attr::kCausal, length.causal);
    add(fmt::format("attention bf16 of 1x{} heads, {} tokens of {}{}", length.heads, length.tokens, length.dim,
                    length.causal ? ", causal" : ""),
        {operand, operand, operand}, std::move(attributes));
  }
  const TensorType t5{DType::kBF16, {1, 64, 512, 64}};
  add("attention bf16 of 1x64 heads, 512 tokens of 64, with a bias", {t5, t5, t5, {DType::kBF16, {1, 64, 512, 512}}},
      {{attr::kScale, 1.0}});
  for (const AttentionSize& size : kEightBitSizes) {
    const TensorType operand = size.operand(DType::kBF16);
    add("8-bit attention, before: bf16 of " + size.name(), {operand, operand, operand}, usual_scale(size.dim));
  }
}

void attention_benchmarks(CaseList& list) {
  add_token_benchmarks(list);
  add_unet_benchmarks(list);
  add_length_benchmarks(list);
}

void merge_cases(CaseList& list) {
  for (const std::int64_t axis : {0, 1, 2})
    for (const bool has_logsumexp : {false, true})
      list.add(fmt::format("parts along axis {}{}", axis, has_logsumexp ? ", logsumexp" : ""),
               {list.data({3, 2, 7, 40}), {DType::kF32, {3, 2, 7}}},
               {{attr::kAxis, axis}, {attr::kLogsumexp, has_logsumexp}});
}

void merge_benchmarks(CaseList& list) {
  for (const std::int64_t parts : {2, 8})
    list.add(fmt::format("merge_attention bf16 of {} parts of {} heads, 4608 tokens of 128", parts, kLargeHeads),
             {{DType::kBF16, {parts, kLargeHeads, 4608, 128}}, {DType::kF32, {parts, kLargeHeads, 4608}}});
}

std::vector<TensorType> quantize_values_types(const TypeQuery& given) {
  const TensorType& v = given.in[0];
  given.require(is_float(v.dtype) && size_of(v.dtype) > 1 && v.shape.rank() == 4 && v.shape[2] > 0,
                "v[b, g, t, e] of a floating-point dtype of 16 bits or more");
  const Shape& shape = v.shape;
  const std::int64_t padded = round_up(shape[2], kValueKeys);
  return {{DType::kF8E4M3, Shape{shape[0], shape[1], shape[3], padded}},
          {DType::kF32, Shape{shape[0], shape[1], shape[3]}}};
}

std::vector<TensorType> scaled_attention_types(const TypeQuery& given) {
  const DType dtype = given.attributes[attr::kDType];
  if (!is_float(dtype)) fail("scaled_attention: dtype must be a floating-point one, but was given {}", dtype);
  const TensorType &q = given.in[0], &k = given.in[2], &v = given.in[4];
  constexpr std::string_view kForm =
      "q[b, h, s, d], q_scale[b, h, s], k[b, g, t, d], k_scale[b, g, t], v[b, g, e, t rounded up to a multiple of 128] "
      "and v_scale[b, g, e], h a multiple of g, q and k both in i8 or both in f8e4m3, v in f8e4m3, scales in f32";
  given.require((q.dtype == DType::kI8 || q.dtype == DType::kF8E4M3) && k.dtype == q.dtype &&
                    v.dtype == DType::kF8E4M3 && q.shape.rank() == 4 && k.shape.rank() == 4 && v.shape.rank() == 4,
                kForm);
  const auto scales_of = [](const Shape& shape) {
    return TensorType{DType::kF32, Shape{shape[0], shape[1], shape[2]}};
  };
  const std::int64_t groups = k.shape[1], keys = k.shape[2];
  given.require(
      groups > 0 && keys > 0 && q.shape[1] % groups == 0 && k.shape == Shape{q.shape[0], groups, keys, q.shape[3]} &&
          v.shape == Shape{q.shape[0], groups, v.shape[2], round_up(keys, kValueKeys)} &&
          given.in[1] == scales_of(q.shape) && given.in[3] == scales_of(k.shape) && given.in[5] == scales_of(v.shape),
      kForm);
  return {{dtype, Shape{q.shape[0], q.shape[1], q.shape[2], v.shape[2]}}};
}

std::vector<ValueId> expand_quantize_values(Builder& builder, const Attributes& /*attributes*/,
                                            std::span<const ValueId> in) {
  const std::vector<ValueId> quantized =
      builder.emit(Op::kQuantize, {builder.transpose(in[0], {0, 1, 3, 2})}, {{attr::kDType, DType::kF8E4M3}});
  const Shape shape = builder.shape(quantized[0]);  // [b, g, e, t]
  const std::int64_t padded = round_up(shape[3], kValueKeys);
  const Ints before(4, 0), after = {0, 0, 0, padded - shape[3]};
  const ValueId whole = builder.emit(Op::kPad, {quantized[0]}, {{attr::kBefore, before}, {attr::kAfter, after}})[0];
  const ValueId split = builder.reshape(whole, {shape[0], shape[1], shape[2], padded / 16, 2, 4, 2});
  const ValueId ordered = builder.transpose(split, {0, 1, 2, 3, 5, 4, 6});
  return {builder.reshape(ordered, {shape[0], shape[1], shape[2], padded}), quantized[1]};
}

/// Elements times their scales, one for each row, in f32.
ValueId times_scales(Builder& builder, ValueId elements, ValueId scales) {
  const Shape shape = builder.shape(scales);
  const ValueId column = builder.reshape(scales, {shape[0], shape[1], shape[2], 1});
  return builder.mul(builder.cast(elements, DType::kF32), column);
}

std::vector<ValueId> expand_scaled_attention(Builder& builder, const Attributes& attributes,
                                             std::span<const ValueId> in) {
  const ValueId q = times_scales(builder, in[0], in[1]);  // [b, h, s, d]
  const ValueId k = times_scales(builder, in[2], in[3]);  // [b, g, t, d]
  const Shape shape = builder.shape(in[4]);               // [b, g, e, u]
  const ValueId split = builder.reshape(in[4], {shape[0], shape[1], shape[2], shape[3] / 16, 4, 2, 2});
  const ValueId ordered = builder.transpose(split, {0, 1, 2, 3, 5, 4, 6});
  const ValueId padded = builder.reshape(ordered, {shape[0], shape[1], shape[2], shape[3]});
  const ValueId values = times_scales(builder, builder.slice(padded, 3, 0, builder.shape(k)[2]), in[5]);
  const ValueId inputs[] = {q, k, builder.transpose(values, {0, 1, 3, 2})};  // v[b, g, t, e]
  const Attributes plain(Op::kAttention, {{attr::kScale, attributes[attr::kScale]}});
  return {builder.cast(expand_attention(builder, plain, inputs)[0], attributes[attr::kDType])};
}

double scaled_attention_flops(const Attributes& /*attributes*/, Types in, Types /*out*/) {
  const Shape &q = in[0].shape, &k = in[2].shape, &v = in[4].shape;
  return 2 * static_cast<double>(q[0] * q[1] * q[2]) * static_cast<double>(k[2] * (q[3] + v[2]));
}

void quantize_values_cases(CaseList& list) {
  for (const std::int64_t tokens : {40, 256})
    list.add(fmt::format("{} tokens of 64", tokens), {list.data({1, 2, tokens, 64})});
}

void scaled_attention_benchmarks(CaseList& list) {
  for (const AttentionSize& size : kEightBitSizes) {
    const TensorType scales{DType::kF32, {1, size.heads, size.tokens}};
    NamedAttributes attributes = usual_scale(size.dim);
    attributes.emplace_back(attr::kDType, DType::kBF16);
    for (const DType dtype : {DType::kI8, DType::kF8E4M3})
      list.add(fmt::format("8-bit attention, {} of {}", dtype, size.name()),
               {size.operand(dtype),
                scales,
                size.operand(dtype),
                scales,
                {DType::kF8E4M3, {1, size.heads, size.dim, round_up(size.tokens, kValueKeys)}},
                {DType::kF32, {1, size.heads, size.dim}}},
               attributes)
          .is_for_gpus = true;
  }
}

void quantize_values_benchmarks(CaseList& list) {
  for (const AttentionSize& size : kEightBitSizes)
    list.add("8-bit attention, quantize_values of " + size.name(), {size.operand(DType::kBF16)}).is_for_gpus = true;
}

void scaled_attention_cases(CaseList& list) {
  const auto scales = [](std::int64_t rows) { return TensorType{DType::kF32, {1, 2, rows}}; };
  for (const DType scores : {DType::kI8, DType::kF8E4M3}) {
    const TensorType q{scores, {1, 2, 70, 64}}, k{scores, {1, 2, 128, 64}}, v{DType::kF8E4M3, {1, 2, 64, 128}};
    OpCase& added = list.add(fmt::format("scores in {}", scores), {q, scales(70), k, scales(128), v, scales(64)},
                             {{attr::kScale, 0.3}, {attr::kDType, list.types().data}});
    added.tolerance = {.relative_l2 = 0.03};  // probabilities are rounded to e4m3
    // Scales are above 0 and finite, or NaN.
    added.leaves_open = [](std::size_t input, Special special) { return input % 2 == 1 && special != Special::kNaN; };
  }
}

/// Scores are small: their exponentials are relative to logarithms that are drawn apart from them.
void attention_backward_cases(CaseList& list) {
  const auto add = [&](std::string name, const TensorType& q, const TensorType& k, const TensorType& v,
                       NamedAttributes attributes) -> OpCase& {
    TensorType made = q;
    made.shape.set(3, v.shape[3]);
    const TensorType rows{DType::kF32, {q.shape[0], q.shape[1], q.shape[2]}};
    attributes.emplace_back(attr::kScale, 0.05);
    OpCase& added = list.add(std::move(name), {q, k, v, made, rows, rows}, std::move(attributes));
    added.leaves_open = [](std::size_t input, Special special) {
      // A kernel may skip what is hidden, or round infinities away where the definition subtracts them.
      return special != Special::kZeros && (input < 4 || special == Special::kInfinities);
    };
    added.tolerance = attention_tolerance(list.types().data, /*has_logsumexp=*/true);
    return added;
  };
  for (const std::int64_t dim : {16, 64, 72}) {
    const TensorType q = list.data({1, 2, 9, dim}), k = list.data({1, 2, 40, dim});
    add(fmt::format("heads of {}", dim), q, k, k, {});
    for (const std::int64_t diagonal : {0, 20, -20})
      add(fmt::format("heads of {}, causal, diagonal {}", dim, diagonal), k, k, k,
          {{attr::kCausal, true}, {attr::kDiagonal, diagonal}});
  }
  const TensorType keys = list.data({1, 2, 128, 64});
  add("whole tiles", list.data({1, 2, 64, 64}), keys, keys, {});
  add("values of another size", list.data({2, 1, 9, 16}), list.data({2, 1, 12, 16}), list.data({2, 1, 12, 24}), {});
  add("4 query heads per key head", list.data({1, 8, 64, 64}), keys, keys, {});
}

void attention_backward_benchmarks(CaseList& list) {
  struct Size {
    std::int64_t batch, heads, tokens, dim;
    bool causal;
  };
  for (const Size& size : {Size{32, 12, 1024, 64, true},
                           {16, 16, 1024, 64, true},
                           {8, 16, 1024, 128, true},
                           {4, 16, 4096, 128, true},
                           {1, 16, 16384, 128, true},
                           {1, kLargeHeads, 4608, 128, false},
                           {512, 3, 272, 64, false}}) {
    const TensorType operand{DType::kBF16, {size.batch, size.heads, size.tokens, size.dim}};
    const TensorType rows{DType::kF32, {size.batch, size.heads, size.tokens}};
    NamedAttributes attributes = usual_scale(size.dim);
    attributes.emplace_back(attr::kCausal, size.causal);
    list.add(fmt::format("attention_backward bf16 of {}x{} heads, {} tokens of {}{}", size.batch, size.heads,
                         size.tokens, size.dim, size.causal ? ", causal" : ""),
             {operand, operand, operand, operand, rows, rows}, std::move(attributes))
        .is_for_gpus = true;
  }
}

constexpr std::array kAttention = {OpDefinition{.op = Op::kAttention,
                                                .kind = OpKind::kContraction,
                                                .infer = attention_types,
                                                .expand = expand_attention,
                                                .derive = derive_attention,
                                                .flops = attention_flops,
                                                .samples = Samples::kEvery,
                                                .narrow_results = 1,
                                                .cases = attention_cases,
                                                .benchmarks = attention_benchmarks,
                                                .derives = has_gradient_kernel},
                                   OpDefinition{.op = Op::kAttentionBackward,
                                                .kind = OpKind::kContraction,
                                                .infer = attention_backward_types,
                                                .expand = expand_attention_backward,
                                                .flops = attention_backward_flops,
                                                .samples = Samples::kEvery,
                                                .cases = attention_backward_cases,
                                                .benchmarks = attention_backward_benchmarks},
                                   OpDefinition{.op = Op::kMergeAttention,
                                                .infer = merge_types,
                                                .expand = expand_merge,
                                                .flops = for_each_input<2>,
                                                .samples = Samples::kBatched,
                                                .keeps_samples = is_along_inner_axis,
                                                .under_axis = next_axis,
                                                .narrow_results = 1,
                                                .cases = merge_cases,
                                                .benchmarks = merge_benchmarks},
                                   OpDefinition{.op = Op::kQuantizeValues,
                                                .infer = quantize_values_types,
                                                .expand = expand_quantize_values,
                                                .no_derivative = "rounds to 8 bits",
                                                .flops = for_each_input<3>,
                                                .samples = Samples::kBatched,
                                                .stays_f32 = true,
                                                .cases = quantize_values_cases,
                                                .benchmarks = quantize_values_benchmarks},
                                   OpDefinition{.op = Op::kScaledAttention,
                                                .kind = OpKind::kContraction,
                                                .infer = scaled_attention_types,
                                                .expand = expand_scaled_attention,
                                                .no_derivative = "multiplies numbers that were rounded to 8 bits",
                                                .flops = scaled_attention_flops,
                                                .samples = Samples::kEvery,
                                                .stays_f32 = true,
                                                .cases = scaled_attention_cases,
                                                .benchmarks = scaled_attention_benchmarks}};

}  // namespace

std::span<const OpDefinition> attention() { return kAttention; }

}  // namespace headroom::ops
