#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "models/config.hpp"
#include "models/text_encoders/clip_text.hpp"
#include "models/text_encoders/text_encoder.hpp"

namespace headroom {

ClipTextConfig parse_clip_text_config(const nlohmann::json& json) {
  using namespace config;
  ClipTextConfig clip;
  clip.has_projection = class_name(json) == kClipTextWithProjection;
  require_class(json, clip.has_projection ? kClipTextWithProjection : kClipText);
  clip.vocab_size = read_int(json, "vocab_size", clip.vocab_size, 1, kMaxExtent);
  clip.hidden_size = read_int(json, "hidden_size", clip.hidden_size, 1, kMaxExtent);
  clip.intermediate_size = read_int(json, "intermediate_size", clip.intermediate_size, 1, kMaxExtent);
  clip.projection_dim = read_int(json, "projection_dim", clip.projection_dim, 1, kMaxExtent);
  clip.num_hidden_layers = read_int(json, "num_hidden_layers", clip.num_hidden_layers, 1, kMaxLayers);
  clip.num_attention_heads = read_int(json, "num_attention_heads", clip.num_attention_heads, 1, kMaxExtent);
  if (clip.hidden_size % clip.num_attention_heads != 0)
    fail("config.json: hidden_size is {}, expected a multiple of num_attention_heads, which is {}", clip.hidden_size,
         clip.num_attention_heads);
  constexpr std::int64_t kMostPositions = 8192;  // the causal bias grows with the square of this number
  clip.max_position_embeddings =
      read_int(json, "max_position_embeddings", clip.max_position_embeddings, 1, kMostPositions);
  clip.eos_token_id = read_int(json, "eos_token_id", clip.eos_token_id, 0, kMaxExtent);
  clip.layer_norm_eps = read_double(json, "layer_norm_eps", clip.layer_norm_eps);
  clip.activation = text_encoder::activation_named(json, "hidden_act", read_text(json, "hidden_act", "quick_gelu"));
  return clip;
}

nlohmann::json clip_l_config() {
  return {{"architectures", {kClipText}},  {"vocab_size", 49408},           {"hidden_size", 768},
          {"intermediate_size", 3072},     {"projection_dim", 768},         {"num_hidden_layers", 12},
          {"num_attention_heads", 12},     {"max_position_embeddings", 77}, {"hidden_act", "quick_gelu"},
          {"eos_token_id", kClipLegacyEos}};
}

}  // namespace headroom
