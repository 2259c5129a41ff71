#include "models/unets/unet2d_condition.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "models/attention.hpp"
#include "models/unets/unet2d_condition_adapter_names.hpp"

namespace headroom {
namespace {

constexpr double kLayerNormEps = 1e-5;
constexpr double kTransformerNormEps = 1e-6;  // of the group norm before it, whatever norm_eps is
constexpr std::int64_t kTextTokens = 77;

class UNet2DCondition {
 public:
  UNet2DCondition(Builder& builder, const UNet2DConditionConfig& config, const UNet2DConditionInputs& inputs,
                  const ParamSource& params)
      : b_(builder), config_(config), inputs_(inputs), params_(params), layers_(builder, params) {}

  ValueId forward() {
    const Attend attend = [&](const UNetPlace& place, ValueId x) { return transformer(place, x); };
    return build_unet(b_, config_, inputs_.sample, conditioning(), attend, params_);
  }

 private:
  /// The embedding of the time, and of the pooled text and sizes if there are any: [batch, time_embed_dim].
  ValueId conditioning() {
    const ValueId t = time_sinusoids(b_, config_, inputs_.timestep, config_.block_out_channels.front());
    const ValueId time = time_embedding(b_, config_, "time_embedding", t, params_);
    if (!config_.has_text_time) return time;
    const Shape ids = b_.shape(inputs_.time_ids);
    const std::int64_t dim = config_.addition_time_embed_dim;
    const ValueId sizes = time_sinusoids(b_, config_, b_.reshape(inputs_.time_ids, {ids.numel()}), dim);
    const ValueId added = b_.concat({inputs_.text_embeds, b_.reshape(sizes, {ids[0], ids[1] * dim})}, 1);
    return b_.add(time, time_embedding(b_, config_, "add_embedding", added, params_));
  }

  /// `Transformer2DModel`: x + blocks over its pixels as tokens, x[b, c, h, w]. Older checkpoints hold its
  /// projections as 1x1 convolutions, which is equivalent.
  ValueId transformer(const UNetPlace& place, ValueId x) {
    const auto scope = b_.scope(place.name);
    const Shape shape = b_.shape(x);
    const std::int64_t width = shape[1];
    const ValueId normed = layers_.norm("norm", x, {.groups = config_.norm_num_groups, .eps = kTransformerNormEps});
    ValueId tokens = layers_.linear("proj_in", layers_.to_tokens(normed), width);  // [b, h w, c]
    for (std::int64_t i = 0; i < config_.transformer_layers[place.level]; ++i) {
      const auto block = b_.scope("transformer_blocks." + std::to_string(i));
      tokens = transformer_block(tokens, config_.heads[place.level]);
    }
    return b_.add(layers_.to_image(layers_.linear("proj_out", tokens, width), shape), x);
  }

  ValueId transformer_block(ValueId x, std::int64_t heads) {
    const ValueId self = layer_norm("norm1", x);
    x = b_.add(x, attend("attn1", self, self, heads));
    x = b_.add(x, attend("attn2", layer_norm("norm2", x), inputs_.encoder_hidden_states, heads));
    return b_.add(x, feed_forward(layer_norm("norm3", x)));
  }

  /// x[b, tokens, c] attends to `seen`[b, tokens of it, ...] -> [b, tokens, c]
  ValueId attend(std::string_view name, ValueId x, ValueId seen, std::int64_t heads) {
    const auto scope = b_.scope(name);
    const std::int64_t width = b_.shape(x)[-1], head_dim = width / heads;
    const ValueId q = layers_.linear("to_q", x, width, false), k = layers_.linear("to_k", seen, width, false);
    const ValueId v = layers_.linear("to_v", seen, width, false);
    const double scale = 1 / std::sqrt(static_cast<double>(head_dim));
    return layers_.linear("to_out.0", attention(b_, q, k, v, heads, scale), width);
  }

  /// GEGLU (Shazeer, "GLU variants improve transformer", 2020): one half of 8 c channels times the GELU of the other
  /// half, projected back to c.
  ValueId feed_forward(ValueId x) {
    const auto scope = b_.scope("ff");
    const std::int64_t width = b_.shape(x)[-1];
    const std::vector<ValueId> halves = b_.chunk(layers_.linear("net.0.proj", x, 8 * width), 2, 2);  // [b, tokens, 4 c]
    return layers_.linear("net.2", b_.mul(halves[0], b_.gelu(halves[1], "none")), width);
  }

  ValueId layer_norm(std::string_view name, ValueId x) { return layers_.layer_norm(name, x, kLayerNormEps); }

  Builder& b_;
  const UNet2DConditionConfig& config_;
  const UNet2DConditionInputs& inputs_;
  const ParamSource& params_;
  ImageLayers layers_;
};

InputShapes condition_shapes(const nlohmann::json& json, const PassSize& size) {
  const UNet2DConditionConfig config = parse_unet2d_condition_config(json);
  InputShapes shapes = {{"sample",
                         {size.batch, config.in_channels, parts_along("--height", size.height, kLatentPixels),
                          parts_along("--width", size.width, kLatentPixels)}},
                        {"timestep", {size.batch}},
                        {"encoder_hidden_states", {size.batch, size.text_tokens, config.cross_attention_dim}}};
  if (!config.has_text_time) return shapes;
  const std::int64_t pooled = config.pooled_dim();
  if (pooled < 1)
    fail("config.json: projection_class_embeddings_input_dim is {}, expected more than {} sinusoids of {} time_ids",
         config.projection_class_embeddings_input_dim, config.addition_time_embed_dim, kTimeIds);
  shapes.emplace("text_embeds", Shape{size.batch, pooled});
  shapes.emplace("time_ids", Shape{size.batch, kTimeIds});
  return shapes;
}

/// Throws Error unless the widths of the pooled text and of the ids' sinusoids add up to the configured one.
void require_text_time(const InputShapes& given, const UNet2DConditionConfig& config, std::int64_t batch) {
  const Shape& text = require_shape(given, "text_embeds", {{"", batch}, {"width"}});
  const Shape& ids = require_shape(given, "time_ids", {{"", batch}, {"ids"}});
  const std::int64_t expected = config.projection_class_embeddings_input_dim;
  if (text[1] + ids[1] * config.addition_time_embed_dim != expected)
    fail("'text_embeds' is {} and 'time_ids' {}, each of which becomes {}: expected {} in all", text, ids,
         config.addition_time_embed_dim, expected);
}

Graph build_condition(const nlohmann::json& json, const InputShapes& given, const ParamSource& params) {
  const UNet2DConditionConfig config = parse_unet2d_condition_config(json);
  const Shape& sample = require_shape(given, "sample", {{"batch"}, {"", config.in_channels}, {"height"}, {"width"}});
  const std::int64_t batch = sample[0];
  const Shape& timestep = require_shape(given, "timestep", {{"", batch}});
  const Shape& text =
      require_shape(given, "encoder_hidden_states", {{"", batch}, {"tokens"}, {"", config.cross_attention_dim}});
  if (config.has_text_time) require_text_time(given, config, batch);
  Graph graph("unet2d_condition");
  UNet2DConditionInputs inputs{
      .sample = graph.add_input("sample", TensorType{.shape = sample}),
      .timestep = graph.add_input("timestep", TensorType{.shape = timestep}),
      .encoder_hidden_states = graph.add_input("encoder_hidden_states", TensorType{.shape = text})};
  if (config.has_text_time) {
    inputs.text_embeds = graph.add_input("text_embeds", TensorType{.shape = given.find("text_embeds")->second});
    inputs.time_ids = graph.add_input("time_ids", TensorType{.shape = given.find("time_ids")->second});
  }
  Builder builder(graph);
  graph.add_output("out_sample", build_unet2d_condition(builder, config, inputs, params));
  return graph;
}

PassSize condition_size(const nlohmann::json& json) {
  const UNet2DConditionConfig config = parse_unet2d_condition_config(json);
  return {.height = config.sample_size[0] * kLatentPixels,
          .width = config.sample_size[1] * kLatentPixels,
          .text_tokens = kTextTokens};
}

std::optional<InputRange> condition_range(const nlohmann::json& /*config*/, std::string_view input) {
  if (input == "timestep") return InputRange{0, 1000};
  if (input == "time_ids") return InputRange{0, 1024};
  return std::nullopt;
}

}  // namespace

ValueId build_unet2d_condition(Builder& builder, const UNet2DConditionConfig& config,
                               const UNet2DConditionInputs& inputs, const ParamSource& params) {
  HR_CHECK_EQ(config.has_text_time, inputs.text_embeds != kNoValue);
  HR_CHECK_EQ(config.has_text_time, inputs.time_ids != kNoValue);
  return UNet2DCondition(builder, config, inputs, params).forward();
}

ComponentClass unet2d_condition_class() {
  return {
      .name = kUNet2DCondition,
      .passes = {{"forward", {"sample", "timestep", "encoder_hidden_states"}, condition_shapes, build_condition}},
      .named =
          {{"sd15-unet",
            "Stable Diffusion 1.5's U-Net, 512x512; its checkpoint does not ship: give a folder or --random-weights",
            sd15_unet_config},
           {"sd21-unet",
            "Stable Diffusion 2.1's U-Net, 768x768; its checkpoint does not ship: give a folder or --random-weights",
            sd21_unet_config},
           {"sd-turbo-unet",
            "SD-Turbo's U-Net, 512x512; its checkpoint does not ship: give a folder or --random-weights",
            sd_turbo_unet_config},
           {"sdxl-unet", "SDXL's U-Net, 1024x1024; its checkpoint does not ship: give a folder or --random-weights",
            sdxl_unet_config}},
      .range = condition_range,
      .own_size = condition_size,
      .adapters = unet2d_condition_adapter_names(),
      .infer = infer_unet2d_condition_config};
}

}  // namespace headroom
