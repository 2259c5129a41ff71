#include "models/text_encoders/clip_text.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "models/attention.hpp"
#include "models/text_encoders/clip_text_names.hpp"
#include "models/text_encoders/text_encoder.hpp"

namespace headroom {
namespace {

class ClipTextModel {
 public:
  ClipTextModel(Builder& builder, const ClipTextConfig& config, const ParamSource& params)
      : b_(builder), config_(config), params_(params) {}

  ClipText forward(ValueId ids) {
    ClipText text;
    {
      const auto scope = b_.scope(has_bare_names() ? "" : "text_model");
      const ValueId bias = text_encoder::causal_bias(b_, b_.shape(ids)[1], params_.compute);
      text.hidden_states.push_back(embeddings(ids));
      for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) {
        const auto block = b_.block("encoder.layers." + std::to_string(i));
        text.hidden_states.push_back(layer(text.hidden_states.back(), bias));
      }
      text.last_hidden_state = norm("final_layer_norm", text.hidden_states.back());
      text.pooler_output = pool(text.last_hidden_state, ids);
    }
    if (config_.has_projection) {
      const auto scope = b_.scope("text_projection");
      const ValueId weight = param("weight", {config_.projection_dim, config_.hidden_size});
      text.text_embeds = b_.linear(text.pooler_output, weight);  // [batch, projection_dim]
    }
    return text;
  }

 private:
  /// The names that transformers uses for this class from version 5 on; published checkpoints are older.
  [[nodiscard]] bool has_bare_names() const { return params_.has && params_.has("final_layer_norm.weight"); }

  /// Token embeddings plus position embeddings: [batch, tokens, hidden_size].
  ValueId embeddings(ValueId ids) {
    const auto scope = b_.scope("embeddings");
    const ValueId tokens = [&] {
      const auto table = b_.scope("token_embedding");
      return read_rows(b_, params_, "weight", {config_.vocab_size, config_.hidden_size}, ids);
    }();
    const auto table = b_.scope("position_embedding");
    const ValueId places = param("weight", {config_.max_position_embeddings, config_.hidden_size});
    return b_.add(tokens, b_.slice(places, 0, 0, b_.shape(ids)[1]));
  }

  ValueId layer(ValueId x, ValueId bias) {
    x = b_.add(x, self_attention(norm("layer_norm1", x), bias));
    return b_.add(x, mlp(norm("layer_norm2", x)));
  }

  ValueId self_attention(ValueId x, ValueId bias) {
    const auto scope = b_.scope("self_attn");
    const std::int64_t width = config_.hidden_size, heads = config_.num_attention_heads;
    const double scale = 1 / std::sqrt(static_cast<double>(width / heads));
    const ValueId q = linear("q_proj", x, width), k = linear("k_proj", x, width), v = linear("v_proj", x, width);
    return linear("out_proj", attention(b_, q, k, v, heads, scale, bias), width);
  }

  ValueId mlp(ValueId x) {
    const auto scope = b_.scope("mlp");
    const ValueId wide = b_.emit(config_.activation, {linear("fc1", x, config_.intermediate_size)})[0];
    return linear("fc2", wide, config_.hidden_size);
  }

  /// The state of the token that ends the text: [batch, tokens, hidden_size] -> [batch, hidden_size].
  ValueId pool(ValueId states, ValueId ids) {
    const auto scope = b_.scope("pooler");
    const Shape shape = b_.shape(states);
    const ValueId ends =
        config_.eos_token_id == kClipLegacyEos
            ? ids
            : b_.equal(ids, b_.constant({static_cast<double>(config_.eos_token_id)}, {}, b_.dtype(ids)));
    const ValueId places = b_.argmax(b_.cast(ends, DType::kF32), 1);  // [batch]; f32 holds every id
    std::vector<double> firsts;
    for (std::int64_t sample = 0; sample < shape[0]; ++sample) firsts.push_back(static_cast<double>(sample * shape[1]));
    const ValueId rows = b_.add(places, b_.constant(std::move(firsts), {shape[0]}, DType::kI32));
    return b_.gather(b_.reshape(states, {shape[0] * shape[1], shape[2]}), rows);
  }

  ValueId norm(std::string_view name, ValueId x) {
    const auto scope = b_.scope(name);
    const ValueId weight = param("weight", {config_.hidden_size}), bias = param("bias", {config_.hidden_size});
    return b_.layer_norm(x, config_.layer_norm_eps, {.weight = weight, .bias = bias});
  }

  /// x[..., in] -> [..., out]
  ValueId linear(std::string_view name, ValueId x, std::int64_t out) {
    const auto scope = b_.scope(name);
    const ValueId weight = param("weight", {out, b_.shape(x)[-1]}), bias = param("bias", {out});
    return b_.linear(x, weight, {.bias = bias});
  }

  ValueId param(std::string_view name, const Shape& shape) { return read_param(b_, params_, name, shape); }

  Builder& b_;
  const ClipTextConfig& config_;
  const ParamSource& params_;
};

InputShapes id_shapes(const nlohmann::json& json, const PassSize& size) {
  return text_encoder::id_shapes(size, parse_clip_text_config(json).max_position_embeddings);
}

/// A graph with the outputs chosen by `put_out`.
template <class PutOut>
Graph build(const nlohmann::json& json, const InputShapes& given, const ParamSource& params, const PutOut& put_out) {
  const ClipTextConfig config = parse_clip_text_config(json);
  Graph graph("clip_text_encode");
  Builder builder(graph);
  const ValueId ids = text_encoder::add_ids(graph, given, config.max_position_embeddings);
  put_out(graph, build_clip_text(builder, config, ids, params));
  return graph;
}

Graph build_clip_text(const nlohmann::json& json, const InputShapes& given, const ParamSource& params) {
  return build(json, given, params, [](Graph& graph, const ClipText& text) {
    const bool is_projected = text.text_embeds != kNoValue;
    graph.add_output("last_hidden_state", text.last_hidden_state);
    graph.add_output(is_projected ? "text_embeds" : "pooler_output",
                     is_projected ? text.text_embeds : text.pooler_output);
  });
}

Graph build_penultimate(const nlohmann::json& json, const InputShapes& given, const ParamSource& params) {
  return build(json, given, params, [](Graph& graph, const ClipText& text) {
    graph.add_output("penultimate_hidden_state", text.hidden_states[text.hidden_states.size() - 2]);
    if (text.text_embeds != kNoValue) graph.add_output("text_embeds", text.text_embeds);
  });
}

Graph build_hidden_states(const nlohmann::json& json, const InputShapes& given, const ParamSource& params) {
  return build(json, given, params, [](Graph& graph, const ClipText& text) {
    for (std::size_t i = 0; i < text.hidden_states.size(); ++i)
      graph.add_output("hidden_states." + std::to_string(i), text.hidden_states[i]);
  });
}

std::optional<InputRange> clip_input_range(const nlohmann::json& json, std::string_view /*input_ids*/) {
  return InputRange{0, static_cast<double>(parse_clip_text_config(json).vocab_size)};
}

/// Position indices, and other tensors of a whole CLIP.
bool is_unread_by_clip(std::string_view tensor) {
  return tensor == "text_model.embeddings.position_ids" || tensor == "embeddings.position_ids" ||
         tensor == "logit_scale" || tensor == "text_projection.weight" || tensor == "visual_projection.weight" ||
         tensor.starts_with("vision_model.");
}

ComponentClass class_named(std::string_view name) {
  return {
      .name = name,
      .passes = {{"encode", {"input_ids"}, id_shapes, build_clip_text},
                 {"penultimate", {"input_ids"}, id_shapes, build_penultimate},
                 {"hidden-states", {"input_ids"}, id_shapes, build_hidden_states}},
      .range = clip_input_range,
      .text_tokens = [](const nlohmann::json& json) { return parse_clip_text_config(json).max_position_embeddings; },
      .is_unread = is_unread_by_clip,
      .infer = infer_clip_text_config};
}

}  // namespace

ClipText build_clip_text(Builder& builder, const ClipTextConfig& config, ValueId ids, const ParamSource& params) {
  return ClipTextModel(builder, config, params).forward(ids);
}

ComponentClass clip_text_class() {
  ComponentClass plain = class_named(kClipText);
  plain.adapters = clip_text_names({"text_encoder.", "lora_te1_", "lora_te_", "text_encoders.clip_l.transformer.", ""});
  plain.named = {{"clip-l",
                  "FLUX.1's CLIP text encoder; its checkpoint does not ship: give a folder or --random-weights",
                  clip_l_config}};
  return plain;
}

ComponentClass clip_text_with_projection_class() {
  ComponentClass projected = class_named(kClipTextWithProjection);
  projected.adapters = clip_text_names({"text_encoder_2.", "lora_te2_", "text_encoders.clip_g.transformer.", ""});
  return projected;
}

}  // namespace headroom
