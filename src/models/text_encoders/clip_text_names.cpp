#include "models/text_encoders/clip_text_names.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "models/text_encoders/clip_text.hpp"

namespace headroom {
namespace {

/// OpenCLIP's names.
std::vector<ModuleAlias> open_clip_aliases(const nlohmann::json& json) {
  std::vector<ModuleAlias> all;
  const auto add = [&](std::string name, std::vector<std::string> modules) -> ModuleAlias& {
    return all.emplace_back(ModuleAlias{.name = std::move(name), .modules = std::move(modules)});
  };
  add("token_embedding", {"text_model.embeddings.token_embedding"});
  add("positional_embedding", {"text_model.embeddings.position_embedding"}).weight = "";
  add("ln_final", {"text_model.final_layer_norm"});
  const ClipTextConfig config = parse_clip_text_config(json);
  if (config.has_projection) {
    ModuleAlias& projection = add("text_projection", {"text_projection"});
    projection.weight = "";
    projection.is_transposed = true;
  }
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const std::string theirs = fmt::format("transformer.resblocks.{}.", i);
    const std::string ours = fmt::format("text_model.encoder.layers.{}.", i);
    add(theirs + "ln_1", {ours + "layer_norm1"});
    add(theirs + "ln_2", {ours + "layer_norm2"});
    ModuleAlias& qkv =
        add(theirs + "attn.in_proj", {ours + "self_attn.q_proj", ours + "self_attn.k_proj", ours + "self_attn.v_proj"});
    qkv.weight = "_weight";
    qkv.bias = "_bias";
    add(theirs + "attn.out_proj", {ours + "self_attn.out_proj"});
    add(theirs + "mlp.c_fc", {ours + "mlp.fc1"});
    add(theirs + "mlp.c_proj", {ours + "mlp.fc2"});
  }
  return all;
}

}  // namespace

AdapterNames clip_text_names(std::vector<std::string_view> prefixes) {
  return {.prefixes = std::move(prefixes),
          .aliases = open_clip_aliases,
          // Files of 2023 name attention's LoRA factors like diffusers' attention processors.
          .ends = {{"self_attn.q_proj", "self_attn.to_q_lora"},
                   {"self_attn.k_proj", "self_attn.to_k_lora"},
                   {"self_attn.v_proj", "self_attn.to_v_lora"},
                   {"self_attn.out_proj", "self_attn.to_out_lora"}},
          .optional_front = "text_model."};
}

nlohmann::json infer_clip_text_config(const NamedShapes& shapes) {
  constexpr std::int64_t kHeadDim = 64;
  const bool is_open_clip = shapes.has("token_embedding.weight");
  const std::string front = shapes.has("embeddings.token_embedding.weight") ? "" : "text_model.";
  const std::string ids = is_open_clip ? "token_embedding.weight" : front + "embeddings.token_embedding.weight";
  const std::string positions = is_open_clip ? "positional_embedding" : front + "embeddings.position_embedding.weight";
  const std::string layers =
      is_open_clip ? "transformer.resblocks.{}.ln_1.weight" : front + "encoder.layers.{}.layer_norm1.weight";
  const std::string wide =
      is_open_clip ? "transformer.resblocks.0.mlp.c_fc.weight" : front + "encoder.layers.0.mlp.fc1.weight";
  const std::int64_t width = shapes.extent(ids, 1);
  nlohmann::json config = {{"vocab_size", shapes.extent(ids, 0)},
                           {"hidden_size", width},
                           {"intermediate_size", shapes.extent(wide, 0)},
                           {"num_hidden_layers", shapes.count(layers)},
                           {"num_attention_heads", nullptr},
                           {"max_position_embeddings", shapes.extent(positions, 0)}};
  if (width % kHeadDim == 0) config["num_attention_heads"] = width / kHeadDim;
  if (is_open_clip && shapes.has("text_projection")) config["projection_dim"] = shapes.extent("text_projection", 1);
  if (shapes.has("text_projection.weight")) config["projection_dim"] = shapes.extent("text_projection.weight", 0);
  return config;
}

}  // namespace headroom
