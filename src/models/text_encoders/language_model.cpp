#include "models/text_encoders/language_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "models/adapter_names.hpp"
#include "models/attention.hpp"
#include "models/named_shapes.hpp"
#include "models/text_encoders/text_encoder.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kDefaultLanguageTokens = 512;
constexpr std::int64_t kMostLanguageTokens = 8192;  // the causal bias grows with the square of this number

class LanguageModel {
 public:
  LanguageModel(Builder& builder, const LanguageModelConfig& config, const ParamSource& params)
      : b_(builder), config_(config), params_(params) {}

  LanguageStates forward(ValueId ids) {
    const auto scope = b_.scope(is_nested() ? "model.language_model" : "model");
    const std::int64_t tokens = b_.shape(ids)[1];
    bias_ = text_encoder::causal_bias(b_, tokens, params_.compute);
    set_positions(places_of(tokens));
    LanguageStates states;
    const ValueId x = layers(ids, config_.num_hidden_layers, states.inputs);
    states.last = norm("norm", x);
    return states;
  }

  /// See build_stacked_states().
  ValueId stacked(ValueId ids, ValueId text_tokens) {
    const auto scope = b_.scope(is_nested() ? "model.language_model" : "model");
    const std::int64_t tokens = b_.shape(ids)[1];
    const ValueId places = places_of(tokens);                                                        // [tokens, 1]
    const ValueId is_text = b_.less(places, b_.reshape(b_.cast(text_tokens, DType::kF32), {1, 1}));  // [tokens, 1]
    const ValueId causal = text_encoder::causal_bias(b_, tokens, params_.compute);                   // [tokens, tokens]
    const ValueId unseen = b_.constant({text_encoder::kUnseen}, {}, params_.compute);
    bias_ = b_.where(b_.reshape(is_text, {1, tokens}), causal, unseen);  // [tokens, tokens]
    set_positions(config_.is_padding_at_one ? b_.where(is_text, places, b_.constant({1}, {})) : places);
    std::vector<ValueId> inputs, stacked;
    const std::int64_t last = std::ranges::max(config_.stacked_layers);
    const ValueId after = layers(ids, last, inputs);
    inputs.push_back(after);
    for (const std::int64_t layer : config_.stacked_layers) stacked.push_back(inputs[static_cast<std::size_t>(layer)]);
    return b_.concat(stacked, 2);  // [1, tokens, layers * hidden_size]
  }

 private:
  /// 0, 1, 2, ...: [tokens, 1].
  ValueId places_of(std::int64_t tokens) {
    std::vector<double> places(static_cast<std::size_t>(tokens));
    std::iota(places.begin(), places.end(), 0.0);
    return b_.constant(std::move(places), {tokens, 1});
  }

  void set_positions(ValueId positions) {
    std::tie(cos_, sin_) = b_.rope_table(positions, {config_.head_dim}, config_.rope_theta);  // [tokens, head_dim / 2]
  }

  /// The result of the first `count` layers, [batch, tokens, hidden_size], and the input of each.
  ValueId layers(ValueId ids, std::int64_t count, std::vector<ValueId>& inputs) {
    ValueId x = embed(ids);
    for (std::int64_t i = 0; i < count; ++i) {
      inputs.push_back(x);
      const auto block = b_.block("layers." + std::to_string(i));
      x = b_.add(x, self_attention(norm("input_layernorm", x)));
      x = b_.add(x, feed_forward(norm("post_attention_layernorm", x)));
    }
    return x;
  }

  /// The names in checkpoints of models that also see, if transformers did not shorten them when it saved.
  [[nodiscard]] bool is_nested() const { return params_.has && params_.has("model.language_model.norm.weight"); }

  ValueId embed(ValueId ids) {
    const auto scope = b_.scope("embed_tokens");
    return read_rows(b_, params_, "weight", {config_.vocab_size, config_.hidden_size}, ids);
  }

  ValueId self_attention(ValueId x) {
    const auto scope = b_.scope("self_attn");
    const double scale = 1 / std::sqrt(static_cast<double>(config_.head_dim));
    const ValueId q = rotated("q", x, config_.num_attention_heads);
    const ValueId k = for_all_queries(rotated("k", x, config_.num_key_value_heads));
    const ValueId v = linear("v_proj", x, config_.num_key_value_heads * config_.head_dim, config_.has_qkv_bias);
    const ValueId values = for_all_queries(split_heads(b_, v, config_.num_key_value_heads));
    const ValueId context = attention_of_heads(b_, q, k, values, scale, bias_);  // [batch, tokens, width]
    return linear("o_proj", context, config_.hidden_size, config_.has_output_bias);
  }

  /// Rotated queries or keys, [batch, heads, tokens, head_dim], whose channels are in the order of the op rope.
  ValueId rotated(const std::string& name, ValueId x, std::int64_t heads) {
    const std::int64_t width = heads * config_.head_dim;
    ValueId projected = kNoValue;  // [batch, tokens, heads * head_dim]
    {
      const auto scope = b_.scope(name + "_proj");
      const ValueId weight = as_neighbours(param("weight", {width, b_.shape(x)[-1]}));
      const ValueId bias = config_.has_qkv_bias ? as_neighbours(param("bias", {width})) : kNoValue;
      projected = b_.linear(x, weight, {.bias = bias});
    }
    ValueId split = split_heads(b_, projected, heads);
    if (config_.has_qk_norm) {
      const auto scope = b_.scope(name + "_norm");
      split = b_.rms_norm(split, as_neighbours(param("weight", {config_.head_dim})), config_.rms_norm_eps);
    }
    return b_.rope(split, cos_, sin_);
  }

  /// Rows [heads * head_dim, ...] of a weight, in the order in which the op rope rotates neighbours. In the
  /// checkpoint, channels i and i + head_dim / 2 of a head are rotated together. Scores do not depend on the order.
  ValueId as_neighbours(ValueId weight) {
    const Shape shape = b_.shape(weight);
    const std::int64_t half = config_.head_dim / 2, heads = shape[0] / config_.head_dim;
    const ValueId halves = b_.reshape(weight, {heads, 2, half, shape.numel() / shape[0]});
    return b_.reshape(b_.transpose(halves, {0, 2, 1, 3}), {shape.dims().begin(), shape.dims().end()});
  }

  /// Repeats the heads of keys or values for the queries that share them: [batch, kv heads, tokens, head_dim] ->
  /// [batch, heads, tokens, head_dim].
  ValueId for_all_queries(ValueId x) {
    const Shape shape = b_.shape(x);
    const std::int64_t sharing = config_.num_attention_heads / shape[1];
    if (sharing == 1) return x;
    const ValueId one = b_.reshape(x, {shape[0], shape[1], 1, shape[2], shape[3]});
    const ValueId all = b_.broadcast(one, {shape[0], shape[1], sharing, shape[2], shape[3]});
    return b_.reshape(all, {shape[0], shape[1] * sharing, shape[2], shape[3]});
  }

  ValueId feed_forward(ValueId x) {
    const auto scope = b_.scope("mlp");
    const ValueId gate = b_.silu(linear("gate_proj", x, config_.intermediate_size, false));
    const ValueId wide = b_.mul(gate, linear("up_proj", x, config_.intermediate_size, false));
    return linear("down_proj", wide, config_.hidden_size, false);
  }

  ValueId norm(std::string_view name, ValueId x) {
    const auto scope = b_.scope(name);
    return b_.rms_norm(x, param("weight", {config_.hidden_size}), config_.rms_norm_eps);
  }

  /// x[..., in] -> [..., out]
  ValueId linear(std::string_view name, ValueId x, std::int64_t out, bool has_bias) {
    const auto scope = b_.scope(name);
    const ValueId weight = param("weight", {out, b_.shape(x)[-1]});
    return b_.linear(x, weight, {.bias = has_bias ? param("bias", {out}) : kNoValue});
  }

  ValueId param(std::string_view name, const Shape& shape) { return read_param(b_, params_, name, shape); }

  Builder& b_;
  const LanguageModelConfig& config_;
  const ParamSource& params_;
  ValueId bias_ = kNoValue;
  ValueId cos_ = kNoValue;
  ValueId sin_ = kNoValue;
};

InputShapes language_shapes(const nlohmann::json& json, const PassSize& size) {
  static_cast<void>(parse_language_model_config(json));
  return text_encoder::id_shapes(size, kMostLanguageTokens);
}

template <bool kAllStates>
Graph build_language_pass(const nlohmann::json& json, const InputShapes& given, const ParamSource& params) {
  const LanguageModelConfig config = parse_language_model_config(json);
  Graph graph("language_model_encode");
  Builder builder(graph);
  const ValueId ids = text_encoder::add_ids(graph, given, kMostLanguageTokens);
  LanguageStates states = build_language_model(builder, config, ids, params);
  if (!kAllStates) {
    graph.add_output("last_hidden_state", states.last);
    return graph;
  }
  states.inputs.push_back(states.last);
  for (std::size_t i = 0; i < states.inputs.size(); ++i)
    graph.add_output("hidden_states." + std::to_string(i), states.inputs[i]);
  return graph;
}

InputShapes stacked_shapes(const nlohmann::json& json, const PassSize& size) {
  InputShapes shapes = language_shapes(json, size);
  if (size.batch != 1) fail_usage("--batch is {}, expected 1: the pass stacked-states reads one text", size.batch);
  shapes.emplace("text_tokens", Shape{1});
  return shapes;
}

Graph build_stacked_pass(const nlohmann::json& json, const InputShapes& given, const ParamSource& params) {
  const LanguageModelConfig config = parse_language_model_config(json);
  Graph graph("language_model_stacked_states");
  Builder builder(graph);
  static_cast<void>(require_shape(given, "input_ids", {{"", 1}, {"tokens"}}));
  const ValueId ids = text_encoder::add_ids(graph, given, kMostLanguageTokens);
  const ValueId text_tokens = graph.add_input("text_tokens", TensorType{.dtype = DType::kI32, .shape = {1}});
  graph.add_output("stacked_states", build_stacked_states(builder, config, ids, text_tokens, params));
  return graph;
}

std::optional<InputRange> language_input_range(const nlohmann::json& json, std::string_view input) {
  if (input == "text_tokens") return InputRange{1, 2};
  return InputRange{0, static_cast<double>(parse_language_model_config(json).vocab_size)};
}

/// The vision half, and the head, which a model without a text to continue does not use.
bool is_unread_by_language_model(std::string_view tensor) {
  return tensor.starts_with("visual.") || tensor.starts_with("model.visual.") || tensor == "lm_head.weight" ||
         tensor == "output.weight";
}

/// llama.cpp's names.
std::vector<ModuleAlias> language_aliases(const nlohmann::json& json) {
  const LanguageModelConfig config = parse_language_model_config(json);
  constexpr std::pair<const char*, const char*> kOfALayer[] = {
      {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
      {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
      {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
      {"attn_k_norm", "self_attn.k_norm"}, {"ffn_norm", "post_attention_layernorm"},
      {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
      {"ffn_down", "mlp.down_proj"}};
  std::vector<ModuleAlias> aliases;
  const auto add = [&](std::string theirs, std::string ours) {
    aliases.push_back({.name = std::move(theirs), .modules = {std::move(ours)}});
  };
  add("token_embd", "model.embed_tokens");
  add("output_norm", "model.norm");
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i)
    for (const auto& [theirs, ours] : kOfALayer)
      add(fmt::format("blk.{}.{}", i, theirs), fmt::format("model.layers.{}.{}", i, ours));
  return aliases;
}

/// Names of a language model's tensors: transformers' of versions 4 and 5, or llama.cpp's.
class LanguageNames {
 public:
  explicit LanguageNames(const NamedShapes& shapes)
      : is_of_llama_(shapes.has("blk.0.attn_q.weight")),
        front_(shapes.has("model.language_model.norm.weight") ? "model.language_model." : "model.") {}

  [[nodiscard]] std::string of_layer(std::string_view number, std::string_view theirs, std::string_view ours) const {
    return is_of_llama_ ? fmt::format("blk.{}.{}.weight", number, theirs)
                        : fmt::format("{}layers.{}.{}.weight", front_, number, ours);
  }
  [[nodiscard]] std::string table() const {
    return is_of_llama_ ? "token_embd.weight" : front_ + "embed_tokens.weight";
  }

 private:
  bool is_of_llama_;
  std::string front_;
};

/// `head_dim` is the width of a head; the number of heads stays open where a projection is no multiple of it.
nlohmann::json infer_language_config(const NamedShapes& shapes, std::string_view class_name, std::int64_t head_dim) {
  const LanguageNames names(shapes);
  const auto heads = [&](std::string_view theirs, std::string_view ours) {
    const std::int64_t rows = shapes.extent(names.of_layer("0", theirs, ours), 0);
    return rows % head_dim == 0 ? nlohmann::json(rows / head_dim) : nlohmann::json();
  };
  return {{"architectures", {class_name}},
          {"vocab_size", shapes.extent(names.table(), 0)},
          {"hidden_size", shapes.extent(names.table(), 1)},
          {"intermediate_size", shapes.extent(names.of_layer("0", "ffn_up", "mlp.up_proj"), 0)},
          {"num_hidden_layers", shapes.count(names.of_layer("{}", "attn_q", "self_attn.q_proj"))},
          {"num_attention_heads", heads("attn_q", "self_attn.q_proj")},
          {"num_key_value_heads", heads("attn_k", "self_attn.k_proj")}};
}

/// Of Qwen2.5-VL, whose heads have 128 channels in all sizes.
nlohmann::json infer_qwen25_vl_config(const NamedShapes& shapes) {
  constexpr std::int64_t kHeadDim = 128;
  return infer_language_config(shapes, kQwen25Vl, kHeadDim);
}

/// Of Qwen3, whose norms of queries are as wide as a head.
nlohmann::json infer_qwen3_config(const NamedShapes& shapes) {
  const std::int64_t head_dim =
      shapes.extent(LanguageNames(shapes).of_layer("0", "attn_q_norm", "self_attn.q_norm"), 0);
  nlohmann::json config = infer_language_config(shapes, kQwen3, head_dim);
  config["head_dim"] = head_dim;
  return config;
}

const ComponentPass kStackedStates = {
    "stacked-states", {"input_ids", "text_tokens"}, stacked_shapes, build_stacked_pass};

ComponentClass language_class(std::string_view name) {
  return {.name = name,
          .passes = {{"encode", {"input_ids"}, language_shapes, build_language_pass<false>},
                     {"hidden-states", {"input_ids"}, language_shapes, build_language_pass<true>}},
          .range = language_input_range,
          .text_tokens = [](const nlohmann::json&) { return kDefaultLanguageTokens; },
          .is_unread = is_unread_by_language_model,
          .adapters = {.aliases = language_aliases}};
}

}  // namespace

LanguageStates build_language_model(Builder& builder, const LanguageModelConfig& config, ValueId ids,
                                    const ParamSource& params) {
  return LanguageModel(builder, config, params).forward(ids);
}

ValueId build_stacked_states(Builder& builder, const LanguageModelConfig& config, ValueId ids, ValueId text_tokens,
                             const ParamSource& params) {
  HR_CHECK(!config.stacked_layers.empty());
  return LanguageModel(builder, config, params).stacked(ids, text_tokens);
}

ComponentClass qwen25_vl_class() {
  ComponentClass qwen = language_class(kQwen25Vl);
  qwen.named = {{"qwen2.5-vl-7b",
                 "Qwen-Image's text encoder; its checkpoint does not ship: give a folder or --random-weights",
                 qwen25_vl_config}};
  qwen.infer = infer_qwen25_vl_config;
  return qwen;
}

ComponentClass qwen3_class() {
  ComponentClass qwen = language_class(kQwen3);
  qwen.passes.push_back(kStackedStates);
  qwen.named = {{"qwen3-4b",
                 "FLUX.2 [klein]'s text encoder; its checkpoint does not ship: give a folder or --random-weights",
                 qwen3_config}};
  qwen.infer = infer_qwen3_config;
  return qwen;
}

ComponentClass qwen3_vl_class() {
  ComponentClass qwen = language_class(kQwen3Vl);
  qwen.passes.push_back(kStackedStates);
  qwen.named = {{"qwen3-vl-4b",
                 "FLUX.3 [klein]'s text encoder; its checkpoint does not ship: give a folder or --random-weights",
                 qwen3_vl_config}};
  return qwen;
}

}  // namespace headroom
