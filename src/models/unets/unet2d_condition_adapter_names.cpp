#include "models/unets/unet2d_condition_adapter_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "models/unets/unet2d_condition.hpp"

namespace headroom {
namespace {

/// Stability's names number the input blocks and the output blocks; each holds a resnet, a transformer and a change
/// of size, if present.
class UNetAliases {
 public:
  explicit UNetAliases(const UNet2DConditionConfig& config) : config_(config) {}

  [[nodiscard]] std::vector<ModuleAlias> take() {
    add_ends();
    add_down();
    add_middle();
    add_up();
    return std::move(all_);
  }

 private:
  void add(std::string name, std::string module) {
    all_.push_back({.name = std::move(name), .modules = {std::move(module)}});
  }

  void add_ends() {
    add("time_embed.0", "time_embedding.linear_1");
    add("time_embed.2", "time_embedding.linear_2");
    if (config_.has_text_time) {
      add("label_emb.0.0", "add_embedding.linear_1");
      add("label_emb.0.2", "add_embedding.linear_2");
    }
    add("input_blocks.0.0", "conv_in");
    add("out.0", "conv_norm_out");
    add("out.2", "conv_out");
  }

  void add_down() {
    std::int64_t block = 1;
    for (std::size_t level = 0; level < config_.levels(); ++level) {
      const std::string ours = fmt::format("down_blocks.{}", level);
      for (std::int64_t j = 0; j < config_.layers_per_block[level]; ++j, ++block)
        add_layer(fmt::format("input_blocks.{}", block), ours, j, level, config_.down_attends[level]);
      if (level + 1 < config_.levels())
        add(fmt::format("input_blocks.{}.0.op", block++), ours + ".downsamplers.0.conv");
    }
  }

  void add_middle() {
    if (!config_.has_mid_block) return;
    add_resnet("middle_block.0", "mid_block.resnets.0");
    add_transformer("middle_block.1", "mid_block.attentions.0", config_.levels() - 1);
    add_resnet("middle_block.2", "mid_block.resnets.1");
  }

  void add_up() {
    std::int64_t block = 0;
    for (std::size_t i = 0; i < config_.levels(); ++i) {
      const std::size_t level = config_.levels() - 1 - i;
      const std::string ours = fmt::format("up_blocks.{}", i);
      for (std::int64_t j = 0; j <= config_.layers_per_block[level]; ++j, ++block)
        add_layer(fmt::format("output_blocks.{}", block), ours, j, level, config_.up_attends[level]);
      if (level > 0)
        add(fmt::format("output_blocks.{}.{}.conv", block - 1, config_.up_attends[level] ? 2 : 1),
            ours + ".upsamplers.0.conv");
    }
  }

  void add_layer(const std::string& theirs, const std::string& ours, std::int64_t j, std::size_t level, bool attends) {
    add_resnet(theirs + ".0", fmt::format("{}.resnets.{}", ours, j));
    if (attends) add_transformer(theirs + ".1", fmt::format("{}.attentions.{}", ours, j), level);
  }

  void add_resnet(const std::string& theirs, const std::string& ours) {
    for (const auto& [their_end, our_end] :
         {std::pair("in_layers.0", "norm1"), std::pair("in_layers.2", "conv1"),
          std::pair("emb_layers.1", "time_emb_proj"), std::pair("out_layers.0", "norm2"),
          std::pair("out_layers.3", "conv2"), std::pair("skip_connection", "conv_shortcut")})
      add(fmt::format("{}.{}", theirs, their_end), fmt::format("{}.{}", ours, our_end));
  }

  /// Its modules have the same names in both naming schemes.
  void add_transformer(const std::string& theirs, const std::string& ours, std::size_t level) {
    for (const char* end : {".norm", ".proj_in", ".proj_out"}) add(theirs + end, ours + end);
    for (std::int64_t i = 0; i < config_.transformer_layers[level]; ++i) {
      const std::string block = fmt::format(".transformer_blocks.{}.", i);
      for (const char* end : {"norm1", "norm2", "norm3", "ff.net.0.proj", "ff.net.2"})
        add(theirs + block + end, ours + block + end);
      for (const char* attention : {"attn1.", "attn2."})
        for (const char* end : {"to_q", "to_k", "to_v", "to_out.0"})
          add(theirs + block + attention + end, ours + block + attention + end);
    }
  }

  const UNet2DConditionConfig& config_;
  std::vector<ModuleAlias> all_;
};

std::vector<ModuleAlias> unet_aliases(const nlohmann::json& json) {
  const UNet2DConditionConfig config = parse_unet2d_condition_config(json);
  return UNetAliases(config).take();
}

/// The levels of a U-Net, read off its input blocks in order.
struct InferredLevels {
  std::vector<std::int64_t> widths, layers, transformers;  ///< transformers of an attention; 0 if the level has none
};

constexpr std::int64_t kMostInputBlocks = 1024;

InferredLevels infer_levels(const NamedShapes& shapes) {
  InferredLevels levels;
  bool is_new = true;
  for (std::int64_t i = 1; i < kMostInputBlocks; ++i) {
    const std::string block = fmt::format("input_blocks.{}.", i);
    if (shapes.has(block + "0.op.weight")) {
      is_new = true;
      continue;
    }
    if (!shapes.has(block + "0.out_layers.3.weight")) break;
    if (std::exchange(is_new, false)) {
      levels.widths.push_back(shapes.extent(block + "0.out_layers.3.weight", 0));
      levels.layers.push_back(0);
      levels.transformers.push_back(shapes.count(block + "1.transformer_blocks.{}.norm1.weight"));
    }
    ++levels.layers.back();
  }
  if (levels.widths.empty())
    fail("{} has no input_blocks.1.0.out_layers.3.weight, from which the network is inferred", shapes.context());
  return levels;
}

}  // namespace

nlohmann::json infer_unet2d_condition_config(const NamedShapes& shapes) {
  const InferredLevels levels = infer_levels(shapes);
  const std::int64_t middle = shapes.count("middle_block.1.transformer_blocks.{}.norm1.weight");
  std::vector<std::string> down, up;
  std::vector<std::int64_t> transformers;
  std::string attention;  // the first transformer of the input blocks
  for (std::size_t level = 0; level < levels.widths.size(); ++level) {
    const bool attends = levels.transformers[level] > 0;
    down.emplace_back(attends ? "CrossAttnDownBlock2D" : "DownBlock2D");
    up.emplace_back(attends ? "CrossAttnUpBlock2D" : "UpBlock2D");
    transformers.push_back(attends ? levels.transformers[level] : 1);
  }
  // The middle block has as many as the last level, if that has any.
  if (middle > 0 && levels.transformers.back() == 0) transformers.back() = middle;
  std::ranges::reverse(up);
  for (std::int64_t i = 1; i < kMostInputBlocks && attention.empty(); ++i) {
    const std::string block = fmt::format("input_blocks.{}.1.", i);
    if (shapes.has(block + "proj_in.weight")) attention = block;
    if (!shapes.has(fmt::format("input_blocks.{}.0.out_layers.3.weight", i)) &&
        !shapes.has(fmt::format("input_blocks.{}.0.op.weight", i)))
      break;
  }
  if (attention.empty()) fail("{} has no attention in its input blocks, which a text needs", shapes.context());
  const Shape* const projection = shapes.find(attention + "proj_in.weight");
  nlohmann::json config = {
      {"_class_name", kUNet2DCondition},
      {"in_channels", shapes.extent("input_blocks.0.0.weight", 1)},
      {"out_channels", shapes.extent("out.2.weight", 0)},
      {"block_out_channels", levels.widths},
      {"layers_per_block", levels.layers},
      {"down_block_types", down},
      {"up_block_types", up},
      {"transformer_layers_per_block", transformers},
      {"cross_attention_dim", shapes.extent(attention + "transformer_blocks.0.attn2.to_k.weight", 1)},
      {"use_linear_projection", projection->rank() == 2}};
  if (shapes.has("label_emb.0.0.weight"))
    config.update({{"addition_embed_type", "text_time"},
                   {"projection_class_embeddings_input_dim", shapes.extent("label_emb.0.0.weight", 1)}});
  return config;
}

AdapterNames unet2d_condition_adapter_names() {
  return {.prefixes = {"unet.", "lora_unet_", "lycoris_", "diffusion_model.", "model.diffusion_model.", ""},
          .aliases = unet_aliases,
          .ends = {{"to_q", "processor.to_q_lora"},
                   {"to_k", "processor.to_k_lora"},
                   {"to_v", "processor.to_v_lora"},
                   {"to_out.0", "processor.to_out_lora"}}};
}

}  // namespace headroom
