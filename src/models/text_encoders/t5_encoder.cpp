#include "models/text_encoders/t5_encoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "models/attention.hpp"
#include "models/text_encoders/text_encoder.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kTokens = 512;       // FLUX.1-dev's
constexpr std::int64_t kMostTokens = 8192;  // the position bias grows with the square of this number

class T5Encoder {
 public:
  T5Encoder(Builder& builder, const T5Config& config, const ParamSource& params)
      : b_(builder), config_(config), params_(params) {}

  ValueId forward(ValueId ids, ValueId mask) {
    ValueId x = embed(ids);  // [batch, tokens, d_model]
    bias_ = position_bias(b_.shape(ids)[1]);
    if (mask != kNoValue) bias_ = hide(bias_, mask);
    for (std::int64_t i = 0; i < config_.num_layers; ++i) {
      const auto block = b_.block("encoder.block." + std::to_string(i));
      x = b_.add(x, self_attention(x));
      x = b_.add(x, feed_forward(x));
    }
    return norm("encoder.final_layer_norm", x);
  }

 private:
  /// The table has two names, and a checkpoint holds either.
  ValueId embed(ValueId ids) {
    const bool is_shared = !params_.has || params_.has("shared.weight");
    const auto scope = b_.scope(is_shared ? "shared" : "encoder.embed_tokens");
    return read_rows(b_, params_, "weight", {config_.vocab_size, config_.d_model}, ids);
  }

  /// The position bias, which the first block holds and all blocks add to their scores: [heads, tokens, tokens].
  ValueId position_bias(std::int64_t tokens) {
    const auto scope = b_.scope("encoder.block.0.layer.0.SelfAttention.relative_attention_bias");
    const ValueId table = param("weight", {config_.relative_attention_num_buckets, config_.num_heads});
    std::vector<double> buckets;
    for (std::int64_t query = 0; query < tokens; ++query)
      for (std::int64_t key = 0; key < tokens; ++key)
        buckets.push_back(static_cast<double>(t5_position_bucket(config_, key - query)));
    const ValueId rows = b_.constant(std::move(buckets), {tokens, tokens}, DType::kI32);
    return b_.transpose(b_.gather(table, rows), {2, 0, 1});
  }

  /// The bias with keys masked where the mask is 0: [batch, heads, tokens, tokens].
  ValueId hide(ValueId bias, ValueId mask) {
    const auto scope = b_.scope("attention_mask");
    const Shape shape = b_.shape(mask);
    const ValueId keys = b_.reshape(mask, {shape[0], 1, 1, shape[1]});
    const ValueId hidden = b_.equal(keys, b_.constant({0}, {}, DType::kI32));
    return b_.where(hidden, b_.constant({text_encoder::kUnseen}, {}, b_.dtype(bias)), bias);
  }

  /// Attention with unscaled queries: the factor 1/sqrt(d_kv) is contained in the weights.
  ValueId self_attention(ValueId x) {
    const auto layer = b_.scope("layer.0");
    const ValueId n = norm("layer_norm", x);
    const auto scope = b_.scope("SelfAttention");
    const std::int64_t inner = config_.inner_dim();
    const ValueId q = linear("q", n, inner), k = linear("k", n, inner), v = linear("v", n, inner);
    return linear("o", attention(b_, q, k, v, config_.num_heads, 1, bias_), config_.d_model);
  }

  ValueId feed_forward(ValueId x) {
    const auto layer = b_.scope("layer.1");
    const ValueId n = norm("layer_norm", x);
    const auto scope = b_.scope("DenseReluDense");
    const ValueId first = linear(config_.is_gated ? "wi_0" : "wi", n, config_.d_ff);
    ValueId wide = b_.emit(config_.activation, {first})[0];  // [batch, tokens, d_ff]
    if (config_.is_gated) wide = b_.mul(wide, linear("wi_1", n, config_.d_ff));
    return linear("wo", wide, config_.d_model);
  }

  ValueId norm(std::string_view name, ValueId x) {
    const auto scope = b_.scope(name);
    return b_.rms_norm(x, param("weight", {config_.d_model}), config_.layer_norm_epsilon);
  }

  /// x[..., in] -> [..., out], without a bias.
  ValueId linear(std::string_view name, ValueId x, std::int64_t out) {
    const auto scope = b_.scope(name);
    return b_.linear(x, param("weight", {out, b_.shape(x)[-1]}));
  }

  ValueId param(std::string_view name, const Shape& shape) { return read_param(b_, params_, name, shape); }

  Builder& b_;
  const T5Config& config_;
  const ParamSource& params_;
  ValueId bias_ = kNoValue;
};

InputShapes encode_shapes(const nlohmann::json& json, const PassSize& size) {
  static_cast<void>(parse_t5_config(json));
  return text_encoder::id_shapes(size, kMostTokens);
}

Graph build_t5_encoder(const nlohmann::json& json, const InputShapes& given, const ParamSource& params) {
  const T5Config config = parse_t5_config(json);
  Graph graph("t5_encode");
  Builder builder(graph);
  const ValueId ids = text_encoder::add_ids(graph, given, kMostTokens);
  ValueId mask = kNoValue;
  if (given.contains("attention_mask")) {
    const Shape& shape = builder.shape(ids);
    mask =
        graph.add_input("attention_mask",
                        TensorType{.dtype = DType::kI32,
                                   .shape = require_shape(given, "attention_mask", {{"", shape[0]}, {"", shape[1]}})});
  }
  graph.add_output("last_hidden_state", build_t5_encoder(builder, config, ids, mask, params));
  return graph;
}

std::optional<InputRange> t5_input_range(const nlohmann::json& json, std::string_view input) {
  return InputRange{0, input == "input_ids" ? static_cast<double>(parse_t5_config(json).vocab_size) : 2};
}

/// Tensors of the decoder, and the second name of the token table.
bool is_unread_by_t5(std::string_view tensor) {
  return tensor.starts_with("decoder.") || tensor == "lm_head.weight" || tensor == "encoder.embed_tokens.weight";
}

/// llama.cpp's names.
std::vector<ModuleAlias> t5_aliases(const nlohmann::json& json) {
  const T5Config config = parse_t5_config(json);
  std::vector<ModuleAlias> aliases;
  const auto add = [&](std::string theirs, std::string ours) {
    aliases.push_back({.name = std::move(theirs), .modules = {std::move(ours)}});
  };
  add("token_embd", "shared");
  add("enc.output_norm", "encoder.final_layer_norm");
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    const std::string theirs = fmt::format("enc.blk.{}.", i), ours = fmt::format("encoder.block.{}.layer.", i);
    add(theirs + "attn_norm", ours + "0.layer_norm");
    for (const char* const one : {"q", "k", "v", "o"}) add(theirs + "attn_" + one, ours + "0.SelfAttention." + one);
    add(theirs + "attn_rel_b", ours + "0.SelfAttention.relative_attention_bias");
    add(theirs + "ffn_norm", ours + "1.layer_norm");
    add(theirs + "ffn_gate", ours + "1.DenseReluDense.wi_0");
    add(theirs + "ffn_up", ours + (config.is_gated ? "1.DenseReluDense.wi_1" : "1.DenseReluDense.wi"));
    add(theirs + "ffn_down", ours + "1.DenseReluDense.wo");
  }
  return aliases;
}

/// The same of a checkpoint in llama.cpp's names.
nlohmann::json infer_llama_t5_config(const NamedShapes& shapes) {
  const std::int64_t heads = shapes.extent("enc.blk.0.attn_rel_b.weight", 1);
  const std::int64_t inner = shapes.extent("enc.blk.0.attn_q.weight", 0);
  if (inner % heads != 0)
    fail("{}: enc.blk.0.attn_rel_b.weight has {} heads, expected a divisor of the {} rows of its queries",
         shapes.context(), heads, inner);
  return {{"architectures", {kT5Encoder}},
          {"vocab_size", shapes.extent("token_embd.weight", 0)},
          {"d_model", shapes.extent("token_embd.weight", 1)},
          {"d_kv", inner / heads},
          {"d_ff", shapes.extent("enc.blk.0.ffn_up.weight", 0)},
          {"num_layers", shapes.count("enc.blk.{}.attn_q.weight")},
          {"num_heads", heads},
          {"relative_attention_num_buckets", shapes.extent("enc.blk.0.attn_rel_b.weight", 0)},
          {"feed_forward_proj", shapes.has("enc.blk.0.ffn_gate.weight") ? "gated-gelu" : "relu"}};
}

/// Of a checkpoint in transformers' names. Networks with gates have the activation of T5 v1.1, others that of T5.
nlohmann::json infer_t5_config(const NamedShapes& shapes) {
  if (shapes.has("enc.blk.0.attn_q.weight")) return infer_llama_t5_config(shapes);
  const char* const table = shapes.has("shared.weight") ? "shared.weight" : "encoder.embed_tokens.weight";
  const std::string block = "encoder.block.0.layer.";
  const std::string biases = block + "0.SelfAttention.relative_attention_bias.weight";
  const std::int64_t heads = shapes.extent(biases, 1), inner = shapes.extent(block + "0.SelfAttention.q.weight", 0);
  if (inner % heads != 0)
    fail("{}: {} has {} heads, expected a divisor of the {} rows of its queries", shapes.context(), biases, heads,
         inner);
  const bool is_gated = shapes.has(block + "1.DenseReluDense.wi_0.weight");
  return {
      {"architectures", {kT5Encoder}},
      {"vocab_size", shapes.extent(table, 0)},
      {"d_model", shapes.extent(table, 1)},
      {"d_kv", inner / heads},
      {"d_ff", shapes.extent(block + (is_gated ? "1.DenseReluDense.wi_0.weight" : "1.DenseReluDense.wi.weight"), 0)},
      {"num_layers", shapes.count("encoder.block.{}.layer.0.SelfAttention.q.weight")},
      {"num_heads", heads},
      {"relative_attention_num_buckets", shapes.extent(biases, 0)},
      {"feed_forward_proj", is_gated ? "gated-gelu" : "relu"}};
}

}  // namespace

std::int64_t t5_position_bucket(const T5Config& config, std::int64_t distance) {
  const std::int64_t half = config.relative_attention_num_buckets / 2, exact = half / 2;
  const std::int64_t behind = distance > 0 ? half : 0, apart = std::abs(distance);
  if (apart < exact) return behind + apart;
  // In f32, as in training.
  const auto ratio = static_cast<float>(apart) / static_cast<float>(exact);
  const auto most = static_cast<float>(
      std::log(static_cast<double>(config.relative_attention_max_distance) / static_cast<double>(exact)));
  const auto further = static_cast<std::int64_t>(std::log(ratio) / most * static_cast<float>(half - exact));
  return behind + std::min(half - 1, exact + further);
}

ValueId build_t5_encoder(Builder& builder, const T5Config& config, ValueId ids, ValueId mask,
                         const ParamSource& params) {
  return T5Encoder(builder, config, params).forward(ids, mask);
}

ComponentClass t5_encoder_class() {
  return {
      .name = kT5Encoder,
      .passes = {{"encode", {"input_ids"}, encode_shapes, build_t5_encoder}},
      .named = {{"t5-xxl", "FLUX.1's T5 text encoder; its checkpoint does not ship: give a folder or --random-weights",
                 t5_xxl_config}},
      .range = t5_input_range,
      .text_tokens = [](const nlohmann::json&) { return kTokens; },
      .is_unread = is_unread_by_t5,
      .adapters = {.prefixes = {"text_encoder_2.", "lora_te3_", "text_encoders.t5xxl.transformer.", ""},
                   .aliases = t5_aliases},
      .infer = infer_t5_config};
}

}  // namespace headroom
