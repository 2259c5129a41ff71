#include "models/transformers/qwen_image.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>

#include "base/error.hpp"
#include "models/named_shapes.hpp"
#include "models/transformers/dual_stream.hpp"

namespace headroom {
namespace {

constexpr double kTextNormEps = 1e-6;

constexpr DualStream::StreamNames kQwenImageStream = {.modulation = {"img_mod", "1"},
                                                      .norm1 = "img_norm1",
                                                      .norm2 = "img_norm2",
                                                      .feed_forward = "img_mlp",
                                                      .projection = {"to_q", "to_k", "to_v", "norm_q", "norm_k"},
                                                      .out = "to_out.0"};
constexpr DualStream::StreamNames kQwenTextStream = {
    .modulation = {"txt_mod", "1"},
    .norm1 = "txt_norm1",
    .norm2 = "txt_norm2",
    .feed_forward = "txt_mlp",
    .projection = {"add_q_proj", "add_k_proj", "add_v_proj", "norm_added_q", "norm_added_k"},
    .out = "to_add_out"};

InputShapes qwen_image_shapes(const QwenImageConfig& config, std::int64_t batch, std::int64_t image_tokens,
                              std::int64_t text_tokens) {
  return {{"hidden_states", {batch, image_tokens, config.in_channels}},
          {"encoder_hidden_states", {batch, text_tokens, config.joint_attention_dim}},
          {"timestep", {batch}},
          {"img_ids", {image_tokens, kQwenImageAxes}},
          {"txt_ids", {text_tokens, kQwenImageAxes}}};
}

InputShapes qwen_image_forward_shapes(const nlohmann::json& json, const PassSize& size) {
  const std::int64_t rows = parts_along("--height", size.height, kQwenImageTokenPixels),
                     columns = parts_along("--width", size.width, kQwenImageTokenPixels);
  return qwen_image_shapes(parse_qwen_image_config(json), size.batch, rows * columns, size.text_tokens);
}

Graph build_qwen_image_forward(const nlohmann::json& json, const InputShapes& given, const ParamSource& params) {
  const QwenImageConfig config = parse_qwen_image_config(json);
  const Shape& image = require_shape(given, "hidden_states", {{"batch"}, {"image tokens"}, {"", config.in_channels}});
  const Shape& text = require_shape(given, "encoder_hidden_states",
                                    {{"", image[0]}, {"text tokens"}, {"", config.joint_attention_dim}});
  Graph graph("qwen_image_forward");
  const InputShapes shapes = qwen_image_shapes(config, image[0], image[1], text[1]);
  const auto input = [&](const char* name) {
    return graph.add_input(name, TensorType{.shape = shapes.find(name)->second});
  };
  const QwenImageInputs inputs{.hidden_states = input("hidden_states"),
                               .encoder_hidden_states = input("encoder_hidden_states"),
                               .timestep = input("timestep"),
                               .img_ids = input("img_ids"),
                               .txt_ids = input("txt_ids")};
  Builder builder(graph);
  graph.add_output("sample", build_qwen_image(builder, config, inputs, params));
  return graph;
}

/// The weights of AdaLN: a third of Qwen-Image.
bool is_qwen_image_modulation(std::string_view param) {
  return param.ends_with("_mod.1.weight") || param.ends_with("norm_out.linear.weight");
}

/// Patches of 2x2, as in all published ones.
nlohmann::json infer_qwen_image_config(const NamedShapes& shapes) {
  constexpr std::int64_t kPatch = 2;
  const std::int64_t head_dim = shapes.extent("transformer_blocks.0.attn.norm_q.weight", 0);
  const std::int64_t dim = shapes.extent("img_in.weight", 0), out = shapes.extent("proj_out.weight", 0);
  if (dim % head_dim != 0 || out % (kPatch * kPatch) != 0)
    fail("{}: {} channels are no multiple of heads of {}, or {} outputs none of patches of 2x2", shapes.context(), dim,
         head_dim, out);
  return {{"_class_name", kQwenImageTransformer},
          {"patch_size", kPatch},
          {"in_channels", shapes.extent("img_in.weight", 1)},
          {"out_channels", out / (kPatch * kPatch)},
          {"num_layers", shapes.count("transformer_blocks.{}.img_mod.1.weight")},
          {"attention_head_dim", head_dim},
          {"num_attention_heads", dim / head_dim},
          {"joint_attention_dim", shapes.extent("txt_norm.weight", 0)}};
}

}  // namespace

ValueId build_qwen_image(Builder& b, const QwenImageConfig& config, const QwenImageInputs& inputs,
                         const ParamSource& params) {
  DualStream layers(b, params, config.num_attention_heads, config.attention_head_dim);
  const std::int64_t dim = config.dim();
  ValueId image = layers.linear("img_in", inputs.hidden_states, dim);  // [batch, image_tokens, dim]
  ValueId text = inputs.encoder_hidden_states;
  {
    const auto scope = b.scope("txt_norm");
    text = b.rms_norm(text, read_param(b, params, "weight", {config.joint_attention_dim}), kTextNormEps);
  }
  text = layers.linear("txt_in", text, dim);  // [batch, text_tokens, dim]
  const ValueId temb = [&] {
    const auto scope = b.scope("time_text_embed");
    return layers.time_embedder("timestep_embedder", inputs.timestep);  // [batch, dim]
  }();
  if (const std::vector<EqualTexts> texts = equal_texts(inputs.text_lengths); texts.size() > 1)
    layers.set_positions(inputs.txt_ids, inputs.img_ids, config.axes_dims_rope, texts);
  else
    layers.set_positions(inputs.txt_ids, inputs.img_ids, config.axes_dims_rope);
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    const auto scope = b.block("transformer_blocks." + std::to_string(i));
    std::tie(image, text) = layers.block(kQwenImageStream, kQwenTextStream, image, text, temb);
  }
  return layers.head(image, temb, config.token_channels());  // [batch, image_tokens, token channels]
}

ComponentClass qwen_image_transformer_class() {
  return {
      .name = kQwenImageTransformer,
      .passes = {{"forward",
                  {"hidden_states", "encoder_hidden_states", "timestep", "img_ids", "txt_ids"},
                  qwen_image_forward_shapes,
                  build_qwen_image_forward}},
      .named = {{"qwen-image", "Qwen-Image, 1024x1024; its checkpoint does not ship: give a folder or --random-weights",
                 qwen_image_config}},
      .is_modulation = is_qwen_image_modulation,
      .adapters = {.prefixes = {"transformer.", "diffusion_model.", "model.diffusion_model.", "lora_unet_",
                                "lora_transformer_", "lycoris_", ""}},
      .infer = infer_qwen_image_config};
}

}  // namespace headroom
