#include <nlohmann/json.hpp>
#include <string>

#include "base/error.hpp"
#include "models/config.hpp"
#include "models/text_encoders/language_model.hpp"

namespace headroom {
namespace {

using namespace config;

/// The object config[key]; null if there is none.
const nlohmann::json* object_at(const nlohmann::json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return nullptr;
  if (!found->is_object()) fail("config.json: {} is {}, expected an object", key, found->dump());
  return &*found;
}

/// Of a model that also sees, transformers 4 wrote the language half's keys at the top, and later versions in
/// `text_config`.
const nlohmann::json& language_half(const nlohmann::json& config) {
  const nlohmann::json* const half = object_at(config, "text_config");
  return half != nullptr && half->contains("hidden_size") ? *half : config;
}

/// transformers 4 has `rope_theta`, and `rope_scaling` for positions with three axes, which are equal for text;
/// version 5 has all of it in `rope_parameters`.
double read_theta(const nlohmann::json& config, double fallback) {
  double theta = read_double(config, "rope_theta", fallback);
  for (const char* const key : {"rope_scaling", "rope_parameters"}) {
    const nlohmann::json* const rope = object_at(config, key);
    if (rope == nullptr) continue;
    for (const char* const type : {"type", "rope_type"})
      if (const std::string name = read_text(*rope, type, "default"); name != "default" && name != "mrope")
        fail("config.json: {} of {} is \"{}\", expected \"default\" or \"mrope\"", type, key, name);
    theta = read_double(*rope, "rope_theta", theta);
  }
  if (!(theta > 0)) fail("config.json: rope_theta is {}, expected more than 0", theta);
  return theta;
}

LanguageModelConfig qwen3_defaults() {
  return {.vocab_size = 151'936,
          .hidden_size = 4096,
          .intermediate_size = 22'016,
          .num_hidden_layers = 32,
          .num_attention_heads = 32,
          .num_key_value_heads = 32,
          .rms_norm_eps = 1e-6,
          .rope_theta = 1e4,
          .has_qkv_bias = false,
          .has_qk_norm = true};
}

/// The states that FLUX.2 [klein] and FLUX.3 read; of a model with fewer layers, that before its last.
void set_stacked_layers(const nlohmann::json& config, bool sees, LanguageModelConfig& model) {
  std::vector<std::int64_t> own =
      sees ? std::vector<std::int64_t>{4, 8, 12, 16, 20, 24, 28, 32} : std::vector<std::int64_t>{9, 18, 27};
  if (own.back() > model.num_hidden_layers) own = {model.num_hidden_layers - 1};
  model.stacked_layers = read_ints(config, "text_encoder_out_layers", own, 0, model.num_hidden_layers);
}

}  // namespace

LanguageModelConfig parse_language_model_config(const nlohmann::json& json) {
  const std::string name = class_name(json);
  const bool sees = name != kQwen3, is_qwen3 = !sees || name == kQwen3Vl;
  require_class(json, is_qwen3 ? (sees ? kQwen3Vl : kQwen3) : kQwen25Vl);
  const nlohmann::json& config = sees ? language_half(json) : json;
  require_text(config, "hidden_act", "silu");
  require_value(config, "use_sliding_window", false);
  LanguageModelConfig model = is_qwen3 ? qwen3_defaults() : LanguageModelConfig{};
  const auto count = [&](const char* key, std::int64_t& value, std::int64_t most) {
    value = read_int(config, key, value, 1, most);
  };
  count("vocab_size", model.vocab_size, kMaxExtent);
  count("hidden_size", model.hidden_size, kMaxExtent);
  count("intermediate_size", model.intermediate_size, kMaxExtent);
  count("num_hidden_layers", model.num_hidden_layers, kMaxLayers);
  count("num_attention_heads", model.num_attention_heads, kMaxLayers);
  count("num_key_value_heads", model.num_key_value_heads, kMaxLayers);
  if (model.num_attention_heads % model.num_key_value_heads != 0)
    fail("config.json: num_attention_heads is {}, expected a multiple of num_key_value_heads, which is {}",
         model.num_attention_heads, model.num_key_value_heads);
  if (!is_qwen3 && model.hidden_size % model.num_attention_heads != 0)
    fail("config.json: hidden_size is {}, expected a multiple of num_attention_heads, which is {}", model.hidden_size,
         model.num_attention_heads);
  model.head_dim =
      read_int(config, "head_dim", is_qwen3 ? 128 : model.hidden_size / model.num_attention_heads, 2, kMaxExtent);
  if (model.head_dim % 2 != 0 || model.head_dim * model.num_attention_heads > kMaxExtent)
    fail("config.json: heads of {} are not even, or {} of them are wider than {}", model.head_dim,
         model.num_attention_heads, kMaxExtent);
  model.rms_norm_eps = read_double(config, "rms_norm_eps", model.rms_norm_eps);
  model.rope_theta = read_theta(config, model.rope_theta);
  if (is_qwen3) {
    model.has_qkv_bias = model.has_output_bias = read_bool(config, "attention_bias", false);
    model.is_padding_at_one = sees;
    set_stacked_layers(json.contains("text_encoder_out_layers") ? json : config, sees, model);
  }
  return model;
}

nlohmann::json qwen3_config() {
  return {{"architectures", {kQwen3}}, {"vocab_size", 151'936},   {"hidden_size", 2560},
          {"intermediate_size", 9728}, {"num_hidden_layers", 36}, {"num_attention_heads", 32},
          {"num_key_value_heads", 8},  {"head_dim", 128},         {"rms_norm_eps", 1e-6},
          {"rope_theta", 1e6},         {"hidden_act", "silu"}};
}

nlohmann::json qwen3_vl_config() {
  nlohmann::json config = qwen3_config();
  config["architectures"] = {kQwen3Vl};
  config["rope_theta"] = 5e6;
  return config;
}

nlohmann::json qwen25_vl_config() {
  return {{"architectures", {kQwen25Vl}}, {"vocab_size", 152'064},      {"hidden_size", 3584},
          {"intermediate_size", 18'944},  {"num_hidden_layers", 28},    {"num_attention_heads", 28},
          {"num_key_value_heads", 4},     {"rms_norm_eps", 1e-6},       {"rope_theta", 1e6},
          {"hidden_act", "silu"},         {"use_sliding_window", false}};
}

}  // namespace headroom
