#include "models/transformers/flux_adapter_names.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "models/transformers/flux.hpp"
#include "models/transformers/flux2.hpp"
#include "models/transformers/flux3.hpp"

namespace headroom {
namespace {

class Aliases {
 public:
  void add(std::string name, std::vector<std::string> modules) {
    all_.push_back({.name = std::move(name), .modules = std::move(modules)});
  }

  /// The norm of queries or keys, whose weight authors call its scale.
  void add_norm(std::string name, std::string module) {
    add(std::move(name), {std::move(module)});
    all_.back().weight = ".scale";
  }

  /// One stream of a double block: `stream` is "img" or "txt". Its feed-forward has a matmul `wide` and one `narrow`.
  void add_stream(std::int64_t block, std::string_view stream, std::string_view wide, std::string_view narrow) {
    const bool is_image = stream == "img";
    const std::string theirs = fmt::format("double_blocks.{}.{}_", block, stream);
    const std::string ours = fmt::format("transformer_blocks.{}.", block);
    const std::string_view feed_forward = is_image ? "ff" : "ff_context";
    const std::string norm = ours + (is_image ? "attn.norm_" : "attn.norm_added_");
    add(theirs + "attn.qkv", qkv_of(block, stream));
    add(theirs + "attn.proj", {out_of(block, stream)});
    add_norm(theirs + "attn.norm.query_norm", norm + "q");
    add_norm(theirs + "attn.norm.key_norm", norm + "k");
    add(theirs + "mlp.0", {fmt::format("{}{}.{}", ours, feed_forward, wide)});
    add(theirs + "mlp.2", {fmt::format("{}{}.{}", ours, feed_forward, narrow)});
  }

  /// The same of FLUX.1, which also has a modulation, and names of XLabs.
  void add_flux_stream(std::int64_t block, std::string_view stream) {
    add_stream(block, stream, "net.0.proj", "net.2");
    const bool is_image = stream == "img";
    add(fmt::format("double_blocks.{}.{}_mod.lin", block, stream),
        {fmt::format("transformer_blocks.{}.{}.linear", block, is_image ? "norm1" : "norm1_context")});
    const std::string processor = fmt::format("double_blocks.{}.processor.", block);
    add(fmt::format("{}qkv_lora{}", processor, is_image ? 1 : 2), qkv_of(block, stream));
    add(fmt::format("{}proj_lora{}", processor, is_image ? 1 : 2), {out_of(block, stream)});
  }

  void add_single(std::int64_t block) {
    const std::string theirs = fmt::format("single_blocks.{}.", block);
    const std::string ours = fmt::format("single_transformer_blocks.{}.", block);
    const std::string q = ours + "attn.to_q", k = ours + "attn.to_k", v = ours + "attn.to_v";
    add(theirs + "linear1", {q, k, v, ours + "proj_mlp"});
    add(theirs + "linear2", {ours + "proj_out"});
    add(theirs + "modulation.lin", {ours + "norm.linear"});
    add_norms(theirs, ours);
    add(theirs + "processor.qkv_lora", {q, k, v});
    add(theirs + "processor.proj_lora", {ours + "proj_out"});
  }

  /// The norms of queries and keys in a block of one stream.
  void add_norms(const std::string& theirs, const std::string& ours) {
    add_norm(theirs + "norm.query_norm", ours + "attn.norm_q");
    add_norm(theirs + "norm.key_norm", ours + "attn.norm_k");
  }

  void add_ends() {
    add("img_in", {"x_embedder"});
    add("txt_in", {"context_embedder"});
    for (const auto& [theirs, ours] :
         {std::pair("time_in", "timestep_embedder"), std::pair("vector_in", "text_embedder"),
          std::pair("guidance_in", "guidance_embedder")})
      add_embedder(theirs, fmt::format("time_text_embed.{}", ours));
    add_head("final_layer.");
  }

  void add_embedder(std::string_view theirs, std::string_view ours) {
    add(fmt::format("{}.in_layer", theirs), {fmt::format("{}.linear_1", ours)});
    add(fmt::format("{}.out_layer", theirs), {fmt::format("{}.linear_2", ours)});
  }

  void add_head(const std::string& theirs) {
    add(theirs + "linear", {"proj_out"});
    add(theirs + "adaLN_modulation.1", {"norm_out.linear"});
    all_.back().swaps_halves = true;  // shift and scale in these files, scale and shift in the checkpoint
  }

  void add_flux2_single(std::int64_t block) {
    const std::string theirs = fmt::format("single_blocks.{}.", block);
    const std::string ours = fmt::format("single_transformer_blocks.{}.", block);
    add(theirs + "linear1", {ours + "attn.to_qkv_mlp_proj"});
    add(theirs + "linear2", {ours + "attn.to_out"});
    add_norms(theirs, ours);
  }

  /// FLUX.3 has blocks of one kind.
  void add_flux3_block(const std::string& theirs, const std::string& ours) {
    for (const auto& [their_end, end] : {std::pair("q_proj", "attn.to_q"), std::pair("k_proj", "attn.to_k"),
                                         std::pair("v_proj", "attn.to_v"), std::pair("attn_out", "attn.to_out.0"),
                                         std::pair("mlp_in", "ff.linear_in"), std::pair("mlp_out", "ff.linear_out")})
      add(theirs + their_end, {ours + end});
    add_norms(theirs, ours);
  }

  [[nodiscard]] std::vector<ModuleAlias> take() { return std::move(all_); }

 private:
  [[nodiscard]] static std::vector<std::string> qkv_of(std::int64_t block, std::string_view stream) {
    const std::string ours = fmt::format("transformer_blocks.{}.attn.", block);
    if (stream == "img") return {ours + "to_q", ours + "to_k", ours + "to_v"};
    return {ours + "add_q_proj", ours + "add_k_proj", ours + "add_v_proj"};
  }
  [[nodiscard]] static std::string out_of(std::int64_t block, std::string_view stream) {
    return fmt::format("transformer_blocks.{}.attn.{}", block, stream == "img" ? "to_out.0" : "to_add_out");
  }

  std::vector<ModuleAlias> all_;
};

std::vector<ModuleAlias> flux_aliases(const nlohmann::json& json) {
  const FluxConfig config = parse_flux_config(json);
  Aliases aliases;
  for (std::int64_t i = 0; i < config.num_layers; ++i)
    for (const std::string_view stream : {"img", "txt"}) aliases.add_flux_stream(i, stream);
  for (std::int64_t i = 0; i < config.num_single_layers; ++i) aliases.add_single(i);
  aliases.add_ends();
  return aliases.take();
}

std::vector<ModuleAlias> flux2_aliases(const nlohmann::json& json) {
  const Flux2Config config = parse_flux2_config(json);
  Aliases aliases;
  for (std::int64_t i = 0; i < config.num_layers; ++i)
    for (const std::string_view stream : {"img", "txt"}) aliases.add_stream(i, stream, "linear_in", "linear_out");
  for (std::int64_t i = 0; i < config.num_single_layers; ++i) aliases.add_flux2_single(i);
  aliases.add("img_in", {"x_embedder"});
  aliases.add("txt_in", {"context_embedder"});
  aliases.add_embedder("time_in", "time_guidance_embed.timestep_embedder");
  aliases.add_embedder("guidance_in", "time_guidance_embed.guidance_embedder");
  for (const std::string modulation :
       {"double_stream_modulation_img", "double_stream_modulation_txt", "single_stream_modulation"})
    aliases.add(modulation + ".lin", {modulation + ".linear"});
  aliases.add_head("final_layer.");
  return aliases.take();
}

std::vector<ModuleAlias> flux3_aliases(const nlohmann::json& json) {
  const Flux3Config config = parse_flux3_config(json);
  Aliases aliases;
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    for (const std::string stream : {"image", "image_cond"})
      aliases.add_flux3_block(fmt::format("content_mode_blocks.{}.{}.", stream, i),
                              fmt::format("mode_blocks.{}.{}.", stream, i));
    const std::string text = fmt::format("txt_mode_blocks.{}.", i);
    aliases.add_flux3_block(text, text);
  }
  for (std::int64_t i = 0; i < config.num_single_layers; ++i)
    aliases.add_flux3_block(fmt::format("single_blocks.{}.", i), fmt::format("single_transformer_blocks.{}.", i));
  for (const std::string stream : {"image", "image_cond"}) aliases.add("emb_in." + stream, {"x_embedders." + stream});
  for (const std::string kind : {"early_stream_modulations.", "single_stream_modulations."})
    for (const char* const stream : {"image", "image_cond", "txt"})
      aliases.add(kind + stream + ".lin", {kind + stream + ".linear"});
  aliases.add("txt_in", {"context_embedder"});
  aliases.add_embedder("time_in", "timestep_embedder");
  aliases.add_embedder("ref_time_in", "target_timestep_embedder");
  aliases.add_head("final_layer.image.");
  return aliases.take();
}

AdapterNames names_with(std::vector<ModuleAlias> (*aliases)(const nlohmann::json& config)) {
  return {.prefixes = {"transformer.", "diffusion_model.", "model.diffusion_model.", "lora_unet_", "lora_transformer_",
                       "lycoris_", ""},
          .aliases = aliases};
}

/// Heads and the width of the feed-forward: one tensor has a head's elements, one twice the rows of the feed-forward.
void infer_flux2_widths(const NamedShapes& shapes, const std::string& norm, const std::string& mlp,
                        const std::string& input, nlohmann::json& config) {
  const std::int64_t width = shapes.extent(input, 0), head_dim = shapes.extent(norm, 0);
  if (width % head_dim != 0)
    fail("{}: {} has {} elements, expected a divisor of the {} rows of {}", shapes.context(), norm, head_dim, width,
         input);
  config["attention_head_dim"] = head_dim;
  config["num_attention_heads"] = width / head_dim;
  config["mlp_ratio"] = static_cast<double>(shapes.extent(mlp, 0)) / 2 / static_cast<double>(width);
}

}  // namespace

nlohmann::json infer_flux2_config(const NamedShapes& shapes) {
  nlohmann::json config = {{"_class_name", kFlux2Transformer},
                           {"in_channels", shapes.extent("img_in.weight", 1)},
                           {"out_channels", shapes.extent("final_layer.linear.weight", 0)},
                           {"num_layers", shapes.count("double_blocks.{}.img_attn.qkv.weight")},
                           {"num_single_layers", shapes.count("single_blocks.{}.linear1.weight")},
                           {"joint_attention_dim", shapes.extent("txt_in.weight", 1)},
                           {"timestep_guidance_channels", shapes.extent("time_in.in_layer.weight", 1)},
                           {"guidance_embeds", shapes.has("guidance_in.in_layer.weight")}};
  infer_flux2_widths(shapes, "double_blocks.0.img_attn.norm.query_norm.scale", "double_blocks.0.img_mlp.0.weight",
                     "img_in.weight", config);
  return config;
}

nlohmann::json infer_flux3_config(const NamedShapes& shapes) {
  nlohmann::json config = {{"_class_name", kFlux3Transformer},
                           {"in_channels", shapes.extent("emb_in.image.weight", 1)},
                           {"cond_in_channels", shapes.extent("emb_in.image_cond.weight", 1)},
                           {"num_layers", shapes.count("txt_mode_blocks.{}.q_proj.weight")},
                           {"num_single_layers", shapes.count("single_blocks.{}.q_proj.weight")},
                           {"joint_attention_dim", shapes.extent("txt_in.weight", 1)},
                           {"timestep_channels", shapes.extent("time_in.in_layer.weight", 1)},
                           {"flow_map", shapes.has("ref_time_in.in_layer.weight")}};
  infer_flux2_widths(shapes, "single_blocks.0.norm.query_norm.scale", "single_blocks.0.mlp_in.weight",
                     "emb_in.image.weight", config);
  return config;
}

nlohmann::json infer_flux_config(const NamedShapes& shapes) {
  const std::string first = "double_blocks.0.img_attn.norm.query_norm.scale";
  const std::int64_t width = shapes.extent("img_in.weight", 0), head_dim = shapes.extent(first, 0);
  if (head_dim == 0 || width % head_dim != 0)
    fail("{}: {} has {} elements, expected a divisor of the {} rows of img_in.weight", shapes.context(), first,
         head_dim, width);
  return {{"_class_name", kFluxTransformer},
          {"in_channels", shapes.extent("img_in.weight", 1)},
          {"out_channels", shapes.extent("final_layer.linear.weight", 0)},
          {"num_layers", shapes.count("double_blocks.{}.img_attn.qkv.weight")},
          {"num_single_layers", shapes.count("single_blocks.{}.linear1.weight")},
          {"attention_head_dim", head_dim},
          {"num_attention_heads", width / head_dim},
          {"joint_attention_dim", shapes.extent("txt_in.weight", 1)},
          {"pooled_projection_dim", shapes.extent("vector_in.in_layer.weight", 1)},
          {"guidance_embeds", shapes.has("guidance_in.in_layer.weight")}};
}

AdapterNames flux_adapter_names() { return names_with(flux_aliases); }
AdapterNames flux2_adapter_names() { return names_with(flux2_aliases); }
AdapterNames flux3_adapter_names() { return names_with(flux3_aliases); }

}  // namespace headroom
