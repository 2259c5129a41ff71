#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "models/config.hpp"
#include "models/language_models/gpt2.hpp"
#include "models/text_encoders/text_encoder.hpp"

namespace headroom {
namespace {

nlohmann::json gpt_config(std::int64_t layers, std::int64_t width, std::int64_t heads) {
  return {{"architectures", {kGpt2}}, {"model_type", "gpt2"}, {"vocab_size", 50304}, {"n_positions", 1024},
          {"n_embd", width},          {"n_layer", layers},    {"n_head", heads}};
}

}  // namespace

Gpt2Config parse_gpt2_config(const nlohmann::json& json) {
  using namespace config;
  require_class(json, kGpt2);
  Gpt2Config gpt;
  gpt.vocab_size = read_int(json, "vocab_size", gpt.vocab_size, 1, kMaxExtent);
  gpt.n_positions = read_int(json, "n_positions", gpt.n_positions, 1, kMaxExtent);
  gpt.n_embd = read_int(json, "n_embd", gpt.n_embd, 1, kMaxExtent);
  gpt.n_layer = read_int(json, "n_layer", gpt.n_layer, 1, kMaxLayers);
  gpt.n_head = read_int(json, "n_head", gpt.n_head, 1, kMaxExtent);
  if (gpt.n_embd % gpt.n_head != 0)
    fail("config.json: n_embd is {}, expected a multiple of n_head, which is {}", gpt.n_embd, gpt.n_head);
  gpt.n_inner = read_int(json, "n_inner", 4 * gpt.n_embd, 1, 4 * kMaxExtent);
  gpt.layer_norm_epsilon = read_double(json, "layer_norm_epsilon", gpt.layer_norm_epsilon);
  gpt.activation =
      text_encoder::activation_named(json, "activation_function", read_text(json, "activation_function", "gelu_new"));
  gpt.scale_attn_weights = read_bool(json, "scale_attn_weights", gpt.scale_attn_weights);
  gpt.tie_word_embeddings = read_bool(json, "tie_word_embeddings", gpt.tie_word_embeddings);
  require_value(json, "scale_attn_by_inverse_layer_idx", false);
  require_value(json, "add_cross_attention", false);
  return gpt;
}

nlohmann::json gpt_125m_config() { return gpt_config(12, 768, 12); }
nlohmann::json gpt_350m_config() { return gpt_config(24, 1024, 16); }
nlohmann::json gpt_1_3b_config() { return gpt_config(24, 2048, 16); }
nlohmann::json gpt_6_7b_config() { return gpt_config(32, 4096, 32); }

}  // namespace headroom
