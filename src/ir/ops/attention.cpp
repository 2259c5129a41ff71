#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "ir/builder.hpp"
#include "ir/cases/op_cases.hpp"
#include "ir/ops/families.hpp"

// Attention, and the plain ops that define it.

namespace headroom::ops {
namespace {

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

/// The causal mask: bool [queries, keys], true for keys up to the query's own position.
ValueId causal_mask(Builder& builder, std::int64_t queries, std::int64_t keys) {
  std::vector<double> sees;
  for (std::int64_t query = 0; query < queries; ++query)
    for (std::int64_t key = 0; key < keys; ++key) sees.push_back(key <= query ? 1 : 0);
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
  if (attributes[attr::kCausal])
    scores = builder.add(scores, bias_of_mask(builder, causal_mask(builder, shape[2], shape[3]), dtype));

  const bool may_see_none = in.size() == 4;
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
  const auto queries = static_cast<double>(q[2]), keys = static_cast<double>(v[2]);
  const double triangle = std::min(queries, keys);
  const double pairs =
      attributes[attr::kCausal] ? triangle * (triangle + 1) / 2 + (queries - triangle) * keys : queries * keys;
  return 2 * static_cast<double>(q[0] * q[1]) * pairs * static_cast<double>(q[3] + v[3]);
}

/// Probabilities, and in kernels of several launches scores, are rounded to the dtype before the second matmul.
Tolerance attention_tolerance(DType dtype) {
  if (dtype == DType::kF32) return {.relative_l2 = 4e-6};
  return {.relative_l2 = dtype == DType::kBF16 ? 1.2e-2 : 3e-3, .max_ulps_of_peak = 4};
}

/// The effect of a masked key is open: kernels may skip it, and the definition multiplies it by a weight of 0.
bool opens_keys(std::size_t input, Special special) { return (input == 1 || input == 2) && special != Special::kZeros; }

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
      list.add(name(", causal"), {k, k, k}, std::move(attributes)).leaves_open = opens_keys;
    }
  const TensorType q = list.data({1, 2, 64, 64}), keys = list.data({1, 2, 128, 64});
  list.add("whole tiles", {q, keys, keys}, {{attr::kScale, 0.125}});
  list.add("4 query heads per key head", {list.data({1, 8, 64, 64}), keys, keys}, {{attr::kScale, 0.125}});
  for (OpCase& one : list) one.tolerance = attention_tolerance(list.types().data);
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

void attention_benchmarks(CaseList& list) {
  add_token_benchmarks(list);
  add_unet_benchmarks(list);
}

constexpr std::array kAttention = {OpDefinition{.op = Op::kAttention,
                                                .kind = OpKind::kContraction,
                                                .infer = attention_types,
                                                .expand = expand_attention,
                                                .flops = attention_flops,
                                                .samples = Samples::kEvery,
                                                .narrow_results = 1,
                                                .cases = attention_cases,
                                                .benchmarks = attention_benchmarks}};

}  // namespace

std::span<const OpDefinition> attention() { return kAttention; }

}  // namespace headroom::ops
