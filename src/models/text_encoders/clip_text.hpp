#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "models/component.hpp"

namespace headroom {

inline constexpr std::string_view kClipText = "CLIPTextModel";
inline constexpr std::string_view kClipTextWithProjection = "CLIPTextModelWithProjection";
inline constexpr std::int64_t kClipLegacyEos = 2;  ///< eos_token_id of old configurations, with any vocabulary

/// The configuration of CLIP's text encoder, under the names of transformers' CLIPTextConfig.
struct ClipTextConfig {
  std::int64_t vocab_size = 49408;
  std::int64_t hidden_size = 512;
  std::int64_t intermediate_size = 2048;
  std::int64_t projection_dim = 512;
  std::int64_t num_hidden_layers = 12;
  std::int64_t num_attention_heads = 8;
  std::int64_t max_position_embeddings = 77;
  std::int64_t eos_token_id = 49407;
  double layer_norm_eps = 1e-5;
  Op activation = Op::kQuickGelu;
  bool has_projection = false;  ///< it is a CLIPTextModelWithProjection
};

/// Reads config.json as written by transformers for a `CLIPTextModel` or `CLIPTextModelWithProjection`. Throws Error
/// that names the key and the value for another class, for sizes that do not fit each other, or for an unknown
/// activation.
[[nodiscard]] ClipTextConfig parse_clip_text_config(const nlohmann::json& config);
/// CLIP L's configuration, the prompt encoder of FLUX.1 and Stable Diffusion: 123 million parameters.
[[nodiscard]] nlohmann::json clip_l_config();

/// The results of the text encoder. Graphs keep only those that they output.
struct ClipText {
  /// [batch, tokens, hidden_size]: the embeddings, then the output of each layer
  std::vector<ValueId> hidden_states;
  ValueId last_hidden_state = kNoValue;  ///< the last one, normalized
  ValueId pooler_output = kNoValue;      ///< [batch, hidden_size]: its row for the token that ends the text
  ValueId text_embeds = kNoValue;        ///< [batch, projection_dim]: the projection of pooler_output, if there is one
};

/// The text encoder of transformers' CLIP (Radford et al., "Learning transferable visual models from natural language
/// supervision", 2021) in plain ops, for ids[batch, tokens]. A text ends at the first eos_token_id. If that is
/// kClipLegacyEos, it ends at the largest id.
[[nodiscard]] ClipText build_clip_text(Builder& builder, const ClipTextConfig& config, ValueId ids,
                                       const ParamSource& params);

/// Its passes, all on `input_ids`: `encode` gives `last_hidden_state` and `pooler_output`, or `text_embeds` with a
/// projection. `penultimate`, which SDXL uses, gives `penultimate_hidden_state`, the input of the last layer, and
/// `text_embeds` with a projection. `hidden-states` gives `hidden_states.0` and so on.
[[nodiscard]] ComponentClass clip_text_class();
[[nodiscard]] ComponentClass clip_text_with_projection_class();

}  // namespace headroom
