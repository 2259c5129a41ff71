#include "models/language_models/gpt2.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/attention.hpp"
#include "models/text_encoders/text_encoder.hpp"

namespace headroom {
namespace {

class Gpt2 {
 public:
  Gpt2(Builder& builder, const Gpt2Config& config, const ParamSource& params)
      : b_(builder), config_(config), params_(params) {}

  ValueId forward(ValueId ids) {
    ValueId x = kNoValue;
    {
      const auto scope = b_.scope(has_bare_names() ? "" : "transformer");
      const ValueId bias = text_encoder::causal_bias(b_, b_.shape(ids)[1], params_.compute);
      x = embeddings(ids);
      for (std::int64_t i = 0; i < config_.n_layer; ++i) {
        const auto block = b_.block("h." + std::to_string(i));
        x = b_.add(x, attend(norm("ln_1", x), bias));
        x = b_.add(x, mlp(norm("ln_2", x)));
      }
      x = norm("ln_f", x);
    }
    return b_.linear(x, head());  // [batch, tokens, vocab_size]
  }

 private:
  /// The names of a checkpoint of transformers' GPT2Model, as OpenAI's was published.
  [[nodiscard]] bool has_bare_names() const { return params_.has && params_.has("wte.weight"); }

  /// Token embeddings plus position embeddings: [batch, tokens, n_embd].
  ValueId embeddings(ValueId ids) {
    const ValueId tokens = [&] {
      const auto scope = b_.scope("wte");
      return read_rows(b_, params_, "weight", {config_.vocab_size, config_.n_embd}, ids);
    }();
    const auto scope = b_.scope("wpe");
    return b_.add(tokens, b_.slice(param("weight", {config_.n_positions, config_.n_embd}), 0, 0, b_.shape(ids)[1]));
  }

  /// The matrix of the output: [vocab_size, n_embd].
  ValueId head() {
    const auto scope = b_.scope(!config_.tie_word_embeddings ? "lm_head"
                                : has_bare_names()           ? "wte"
                                                             : "transformer.wte");
    return param("weight", {config_.vocab_size, config_.n_embd});
  }

  ValueId attend(ValueId x, ValueId bias) {
    const auto scope = b_.scope("attn");
    const std::int64_t width = config_.n_embd, heads = config_.n_head;
    const double scale = config_.scale_attn_weights ? 1 / std::sqrt(static_cast<double>(width / heads)) : 1;
    const std::vector<ValueId> qkv = b_.chunk(linear("c_attn", x, 3 * width), 3, 2);  // [batch, tokens, n_embd] each
    return linear("c_proj", attention(b_, qkv[0], qkv[1], qkv[2], heads, scale, bias), width);
  }

  ValueId mlp(ValueId x) {
    const auto scope = b_.scope("mlp");
    const ValueId wide = b_.emit(config_.activation, {linear("c_fc", x, config_.n_inner)})[0];
    return linear("c_proj", wide, config_.n_embd);
  }

  ValueId norm(std::string_view name, ValueId x) {
    const auto scope = b_.scope(name);
    const ValueId weight = param("weight", {config_.n_embd}), bias = param("bias", {config_.n_embd});
    return b_.layer_norm(x, config_.layer_norm_epsilon, {.weight = weight, .bias = bias});
  }

  /// x[..., in] -> [..., out]. The layer is transformers' Conv1D, whose matrix is [in, out].
  ValueId linear(std::string_view name, ValueId x, std::int64_t out) {
    const auto scope = b_.scope(name);
    const ValueId weight = param("weight", {b_.shape(x)[-1], out}), bias = param("bias", {out});
    return b_.linear(x, b_.transpose(weight, {1, 0}), {.bias = bias});
  }

  ValueId param(std::string_view name, const Shape& shape) { return read_param(b_, params_, name, shape); }

  Builder& b_;
  const Gpt2Config& config_;
  const ParamSource& params_;
};

InputShapes gpt2_id_shapes(const nlohmann::json& json, const PassSize& size) {
  return text_encoder::id_shapes(size, parse_gpt2_config(json).n_positions);
}

Graph build_gpt2_forward(const nlohmann::json& json, const InputShapes& given, const ParamSource& params) {
  const Gpt2Config config = parse_gpt2_config(json);
  Graph graph("gpt2_forward");
  Builder builder(graph);
  const ValueId ids = text_encoder::add_ids(graph, given, config.n_positions);
  graph.add_output("logits", build_gpt2(builder, config, ids, params));
  return graph;
}

std::optional<InputRange> gpt2_input_range(const nlohmann::json& json, std::string_view /*input_ids*/) {
  return InputRange{0, static_cast<double>(parse_gpt2_config(json).vocab_size)};
}

/// Causal masks, and the matrix of the output next to the table that it equals.
bool is_unread_by_gpt2(std::string_view tensor) {
  return tensor.ends_with(".attn.bias") || tensor.ends_with(".attn.masked_bias") || tensor == "lm_head.weight";
}

}  // namespace

ValueId build_gpt2(Builder& builder, const Gpt2Config& config, ValueId ids, const ParamSource& params) {
  return Gpt2(builder, config, params).forward(ids);
}

ComponentClass gpt2_class() {
  return {
      .name = kGpt2,
      .passes = {{"forward", {"input_ids"}, gpt2_id_shapes, build_gpt2_forward}},
      .named = {{"gpt-125m", "a GPT of 12 layers, width 768, 12 heads; there is no checkpoint: give --random-weights",
                 gpt_125m_config},
                {"gpt-350m", "a GPT of 24 layers, width 1024, 16 heads; there is no checkpoint: give --random-weights",
                 gpt_350m_config},
                {"gpt-1.3b", "a GPT of 24 layers, width 2048, 16 heads; there is no checkpoint: give --random-weights",
                 gpt_1_3b_config},
                {"gpt-6.7b", "a GPT of 32 layers, width 4096, 32 heads; there is no checkpoint: give --random-weights",
                 gpt_6_7b_config}},
      .range = gpt2_input_range,
      .text_tokens = [](const nlohmann::json& json) { return parse_gpt2_config(json).n_positions; },
      .is_unread = is_unread_by_gpt2};
}

}  // namespace headroom
