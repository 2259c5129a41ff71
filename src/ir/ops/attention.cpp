#include "ir/ops/attention.hpp"

#include <array>
#include <limits>

#include "base/error.hpp"
#include "base/tensors/divide_up.hpp"
#include "ir/builder.hpp"
#include "ir/ops/families.hpp"

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
  std::vector<double> sees;
  for (std::int64_t query = 0; query < queries; ++query)
    for (std::int64_t key = 0; key < keys; ++key) sees.push_back(key <= query + diagonal ? 1 : 0);
  return builder.constant(std::move(sees), Shape{queries, keys}, DType::kBool);
}

/// Appends a column to the scores that matters only if all others are -inf: softmax then has a finite entry.
ValueId with_lowest(Builder& builder, ValueId scores) {
  const DType dtype = builder.dtype(scores);
  Shape shape = builder.shape(scores);
  shape.set(3, 1);
  const double lowest = dtype == DType::kF16 ? -65504 : -3e38;
  return builder.concat({scores, builder.constant({lowest}, shape, dtype)}, 3);
}

/// log(sum(exp(scores))) in f32; `guarded` are the scores with a finite one added.
ValueId logsumexp(Builder& builder, ValueId scores, ValueId guarded) {
  const ValueId most = builder.amax(guarded, {3});  // [b, h, s]
  const Shape shape = builder.shape(most);
  const ValueId column = builder.reshape(most, {shape[0], shape[1], shape[2], 1});
  const ValueId powers = builder.emit(Op::kExp, {builder.sub(scores, column)})[0];
  const ValueId log = builder.emit(Op::kLog, {builder.sum(powers, {3})})[0];
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
  if (attributes[attr::kLogsumexp]) results.push_back(logsumexp(builder, scores, guarded));
  return results;
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
    results.push_back(builder.cast(builder.add(reference, builder.log(total)), DType::kF32));
  return results;
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

constexpr std::array kAttention = {OpDefinition{.op = Op::kAttention,
                                                .kind = OpKind::kContraction,
                                                .infer = attention_types,
                                                .expand = expand_attention,
                                                .flops = attention_flops,
                                                .samples = Samples::kEvery,
                                                .narrow_results = 1},
                                   OpDefinition{.op = Op::kMergeAttention,
                                                .infer = merge_types,
                                                .expand = expand_merge,
                                                .flops = for_each_input<2>,
                                                .samples = Samples::kBatched,
                                                .keeps_samples = is_along_inner_axis,
                                                .under_axis = next_axis,
                                                .narrow_results = 1},
                                   OpDefinition{.op = Op::kQuantizeValues,
                                                .infer = quantize_values_types,
                                                .expand = expand_quantize_values,
                                                .flops = for_each_input<3>,
                                                .samples = Samples::kBatched,
                                                .stays_f32 = true},
                                   OpDefinition{.op = Op::kScaledAttention,
                                                .kind = OpKind::kContraction,
                                                .infer = scaled_attention_types,
                                                .expand = expand_scaled_attention,
                                                .flops = scaled_attention_flops,
                                                .samples = Samples::kEvery,
                                                .stays_f32 = true}};

}  // namespace

std::span<const OpDefinition> attention() { return kAttention; }

}  // namespace headroom::ops
