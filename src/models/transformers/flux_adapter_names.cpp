#include "models/transformers/flux_adapter_names.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "models/transformers/flux.hpp"

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

  /// One stream of a double block: `stream` is "img" or "txt".
  void add_stream(std::int64_t block, std::string_view stream) {
    const bool is_image = stream == "img";
    const std::string theirs = fmt::format("double_blocks.{}.{}_", block, stream);
    const std::string ours = fmt::format("transformer_blocks.{}.", block);
    const std::vector<std::string> qkv =
        is_image ? std::vector{ours + "attn.to_q", ours + "attn.to_k", ours + "attn.to_v"}
                 : std::vector{ours + "attn.add_q_proj", ours + "attn.add_k_proj", ours + "attn.add_v_proj"};
    const std::string out = ours + (is_image ? "attn.to_out.0" : "attn.to_add_out");
    const std::string mlp = ours + (is_image ? "ff" : "ff_context");
    const std::string norm = ours + (is_image ? "attn.norm_" : "attn.norm_added_");
    add(theirs + "attn.qkv", qkv);
    add(theirs + "attn.proj", {out});
    add_norm(theirs + "attn.norm.query_norm", norm + "q");
    add_norm(theirs + "attn.norm.key_norm", norm + "k");
    add(theirs + "mlp.0", {mlp + ".net.0.proj"});
    add(theirs + "mlp.2", {mlp + ".net.2"});
    add(theirs + "mod.lin", {ours + (is_image ? "norm1.linear" : "norm1_context.linear")});
    const std::string processor = fmt::format("double_blocks.{}.processor.", block);
    add(fmt::format("{}qkv_lora{}", processor, is_image ? 1 : 2), qkv);
    add(fmt::format("{}proj_lora{}", processor, is_image ? 1 : 2), {out});
  }

  void add_single(std::int64_t block) {
    const std::string theirs = fmt::format("single_blocks.{}.", block);
    const std::string ours = fmt::format("single_transformer_blocks.{}.", block);
    const std::string q = ours + "attn.to_q", k = ours + "attn.to_k", v = ours + "attn.to_v";
    add(theirs + "linear1", {q, k, v, ours + "proj_mlp"});
    add(theirs + "linear2", {ours + "proj_out"});
    add(theirs + "modulation.lin", {ours + "norm.linear"});
    add_norm(theirs + "norm.query_norm", ours + "attn.norm_q");
    add_norm(theirs + "norm.key_norm", ours + "attn.norm_k");
    add(theirs + "processor.qkv_lora", {q, k, v});
    add(theirs + "processor.proj_lora", {ours + "proj_out"});
  }

  void add_ends() {
    add("img_in", {"x_embedder"});
    add("txt_in", {"context_embedder"});
    for (const auto& [theirs, ours] :
         {std::pair("time_in", "timestep_embedder"), std::pair("vector_in", "text_embedder"),
          std::pair("guidance_in", "guidance_embedder")}) {
      add(fmt::format("{}.in_layer", theirs), {fmt::format("time_text_embed.{}.linear_1", ours)});
      add(fmt::format("{}.out_layer", theirs), {fmt::format("time_text_embed.{}.linear_2", ours)});
    }
    add("final_layer.linear", {"proj_out"});
    add("final_layer.adaLN_modulation.1", {"norm_out.linear"});
    all_.back().swaps_halves = true;  // shift and scale in these files, scale and shift in the checkpoint
  }

  [[nodiscard]] std::vector<ModuleAlias> take() { return std::move(all_); }

 private:
  std::vector<ModuleAlias> all_;
};

std::vector<ModuleAlias> flux_aliases(const nlohmann::json& json) {
  const FluxConfig config = parse_flux_config(json);
  Aliases aliases;
  for (std::int64_t i = 0; i < config.num_layers; ++i)
    for (const std::string_view stream : {"img", "txt"}) aliases.add_stream(i, stream);
  for (std::int64_t i = 0; i < config.num_single_layers; ++i) aliases.add_single(i);
  aliases.add_ends();
  return aliases.take();
}

}  // namespace

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

AdapterNames flux_adapter_names() {
  return {.prefixes = {"transformer.", "diffusion_model.", "model.diffusion_model.", "lora_unet_", "lora_transformer_",
                       "lycoris_", ""},
          .aliases = flux_aliases};
}

}  // namespace headroom
