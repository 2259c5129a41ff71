#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "models/component.hpp"

namespace headroom {

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
  bool has_projection = false;  ///< a CLIPTextModelWithProjection
};

/// Reads config.json as transformers writes it for a `CLIPTextModel` or `CLIPTextModelWithProjection`. Throws Error
/// that names the key and the value where it is neither, sizes do not fit each other, or an activation is not known.
[[nodiscard]] ClipTextConfig parse_clip_text_config(const nlohmann::json& config);
/// CLIP L's, which FLUX.1 and Stable Diffusion read prompts with: 123 million parameters.
[[nodiscard]] nlohmann::json clip_l_config();

/// What it makes of a text. Graphs keep of it what they put out.
struct ClipText {
  std::vector<ValueId> hidden_states;    ///< [batch, tokens, hidden_size]: the embeddings, then what each layer makes
  ValueId last_hidden_state = kNoValue;  ///< the last one, normalized
  ValueId pooler_output = kNoValue;      ///< [batch, hidden_size]: of that the token that ends the text
  ValueId text_embeds = kNoValue;        ///< [batch, projection_dim]: projected, where it has a projection
};

/// The text encoder of transformers' CLIP (Radford et al., "Learning transferable visual models from natural language
/// supervision", 2021) in plain ops, of ids[batch, tokens]. A text ends at the first eos_token_id, or where that is 2,
/// as old configurations have it whatever their vocabulary, at the largest id.
[[nodiscard]] ClipText build_clip_text(Builder& builder, const ClipTextConfig& config, ValueId ids,
                                       const ParamSource& params);

/// Its passes: `encode` makes of `input_ids` `last_hidden_state` and `pooler_output`, or with a projection
/// `text_embeds`; `penultimate`, as SDXL reads it, `penultimate_hidden_state`, what the last layer is given, and with a projection
/// `text_embeds`; `hidden-states` the `hidden_states.0` and on.
[[nodiscard]] ComponentClass clip_text_class();
[[nodiscard]] ComponentClass clip_text_with_projection_class();

}  // namespace headroom
