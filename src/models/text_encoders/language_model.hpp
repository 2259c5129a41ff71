#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "models/component.hpp"

namespace headroom {

inline constexpr std::string_view kQwen25Vl = "Qwen2_5_VLForConditionalGeneration";
inline constexpr std::string_view kQwen3 = "Qwen3ForCausalLM";
inline constexpr std::string_view kQwen3Vl = "Qwen3VLForConditionalGeneration";

/// The configuration of a decoder-only language model, under the names of transformers' Qwen2_5_VLTextConfig, whose
/// defaults these are, and Qwen3Config.
struct LanguageModelConfig {
  std::int64_t vocab_size = 152'064;
  std::int64_t hidden_size = 8192;
  std::int64_t intermediate_size = 29'568;
  std::int64_t num_hidden_layers = 80;
  std::int64_t num_attention_heads = 64;
  std::int64_t num_key_value_heads = 8;  ///< each serves as many neighbouring heads of queries
  std::int64_t head_dim = 128;
  double rms_norm_eps = 1e-5;
  double rope_theta = 1e6;
  bool has_qkv_bias = true;
  bool has_output_bias = false;
  bool has_qk_norm = false;  ///< queries and keys are normalized per head before the rotation
  /// `text_encoder_out_layers` of diffusers' pipelines: the inputs of these layers are the states that a denoiser
  /// reads. By default those of FLUX.2 [klein] and FLUX.3.
  std::vector<std::int64_t> stacked_layers = {};
  bool is_padding_at_one = false;  ///< ids that fill a text up have the position 1, and not that of their place
};

/// Reads config.json as written by transformers 4 or 5. Throws Error that names the key and the value for another
/// class, another activation, other rotary positions, or a sliding window.
[[nodiscard]] LanguageModelConfig parse_language_model_config(const nlohmann::json& config);
/// Qwen3-VL 4B, the prompt encoder of FLUX.3, and Qwen3 4B, that of FLUX.2 [klein].
[[nodiscard]] nlohmann::json qwen3_vl_config();
[[nodiscard]] nlohmann::json qwen3_config();
/// Qwen2.5-VL 7B, the prompt encoder of Qwen-Image: 7.07 billion parameters without vision and head.
[[nodiscard]] nlohmann::json qwen25_vl_config();

/// Hidden states, [batch, tokens, hidden_size] each.
struct LanguageStates {
  std::vector<ValueId> inputs;  ///< of each layer; the first are the embeddings
  ValueId last;                 ///< after the last layer and the final norm
};

/// The decoder of transformers' Qwen2 and Qwen3 in plain ops, without the head: ids[batch, tokens] -> hidden states.
/// A token sees itself and the tokens before it, and its position is its number, so that ids added on the right change
/// nothing before them. transformers' rotation of halves is the op rope on permuted rows of the projections.
[[nodiscard]] LanguageStates build_language_model(Builder& builder, const LanguageModelConfig& config, ValueId ids,
                                                  const ParamSource& params);

/// The states of config.stacked_layers side by side for one text, ids[1, tokens] -> [1, tokens, layers * hidden_size].
/// Ids from number text_tokens[1] on fill the text up: no id attends to them, and their states are given too. Layers
/// above the last of these are not built.
[[nodiscard]] ValueId build_stacked_states(Builder& builder, const LanguageModelConfig& config, ValueId ids,
                                           ValueId text_tokens, const ParamSource& params);

/// Passes: `encode` maps `input_ids` to `last_hidden_state`, `hidden-states` to `hidden_states.0` and on, as
/// transformers numbers them, and `stacked-states`, of Qwen3, `input_ids` and `text_tokens` to `stacked_states`. Of a
/// model that also sees, this is the language half.
[[nodiscard]] ComponentClass qwen25_vl_class();
[[nodiscard]] ComponentClass qwen3_class();
[[nodiscard]] ComponentClass qwen3_vl_class();

}  // namespace headroom
