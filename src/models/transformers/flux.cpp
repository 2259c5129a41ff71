#include "models/transformers/flux.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "models/transformers/dual_stream.hpp"
#include "models/transformers/flux_adapter_names.hpp"

namespace headroom {
namespace {

/// The names of a double block's layers.
constexpr DualStream::StreamNames kImageStream = {.modulation = {"norm1", "linear"},
                                                  .norm1 = "norm1",
                                                  .norm2 = "norm2",
                                                  .feed_forward = "ff",
                                                  .projection = {"to_q", "to_k", "to_v", "norm_q", "norm_k"},
                                                  .out = "to_out.0"};
constexpr DualStream::StreamNames kTextStream = {
    .modulation = {"norm1_context", "linear"},
    .norm1 = "norm1_context",
    .norm2 = "norm2_context",
    .feed_forward = "ff_context",
    .projection = {"add_q_proj", "add_k_proj", "add_v_proj", "norm_added_q", "norm_added_k"},
    .out = "to_add_out"};

class Flux {
 public:
  Flux(Builder& builder, const FluxConfig& config, const FluxInputs& inputs, const ParamSource& params)
      : b_(builder),
        config_(config),
        inputs_(inputs),
        dim_(config.dim()),
        layers_(builder, params, config.num_attention_heads, config.attention_head_dim) {}

  ValueId forward() {
    const ValueId temb = conditioning();                                        // [batch, dim]
    ValueId image = layers_.linear("x_embedder", inputs_.hidden_states, dim_);  // [batch, image_tokens, dim]
    ValueId text =
        layers_.linear("context_embedder", inputs_.encoder_hidden_states, dim_);  // [batch, text_tokens, dim]
    layers_.set_positions(inputs_.txt_ids, inputs_.img_ids, config_.axes_dims_rope);

    for (std::int64_t i = 0; i < config_.num_layers; ++i) {
      const auto scope = b_.block("transformer_blocks." + std::to_string(i));
      std::tie(image, text) = layers_.block(kImageStream, kTextStream, image, text, temb);
    }
    const std::int64_t text_tokens = b_.shape(text)[1];
    const std::int64_t image_tokens = b_.shape(image)[1];
    if (config_.num_single_layers > 0) {
      ValueId tokens = b_.concat({text, image}, 1);  // [batch, text + image tokens, dim]
      for (std::int64_t i = 0; i < config_.num_single_layers; ++i) {
        const auto scope = b_.block("single_transformer_blocks." + std::to_string(i));
        tokens = single_block(tokens, temb);
      }
      image = b_.slice(tokens, 1, text_tokens, image_tokens);
    }
    return layers_.head(image, temb, config_.out_channels);  // [batch, image_tokens, out_channels]
  }

 private:
  ValueId conditioning() {
    const auto scope = b_.scope("time_text_embed");
    ValueId temb = layers_.time_embedder("timestep_embedder", inputs_.timestep);
    if (config_.guidance_embeds) temb = b_.add(temb, layers_.time_embedder("guidance_embedder", inputs_.guidance));
    return b_.add(temb, layers_.embedder("text_embedder", inputs_.pooled_projections));  // [batch, dim]
  }

  /// Attention and the MLP in parallel on one normed input, both projected back by one matmul.
  ValueId single_block(ValueId tokens, ValueId temb) {
    const std::vector<ValueId> mod = layers_.modulations({"norm", "linear"}, temb, 3);
    const ValueId shift = mod[0], scale = mod[1], gate = mod[2];
    const ValueId x = layers_.modulated_norm("norm", tokens, scale, shift);
    const ValueId mlp = b_.gelu(layers_.linear("proj_mlp", x, 4 * dim_));  // [batch, tokens, 4 * dim]
    const ValueId context = [&] {
      const auto scope = b_.scope("attn");
      return layers_.attention(layers_.project(kImageStream.projection, x));  // [batch, tokens, dim]
    }();
    return layers_.gated_residual(tokens, gate, layers_.linear("proj_out", b_.concat({context, mlp}, 2), dim_));
  }

  Builder& b_;
  const FluxConfig& config_;
  const FluxInputs& inputs_;
  std::int64_t dim_;
  DualStream layers_;
};

InputShapes input_shapes(const FluxConfig& config, const FluxShape& shape) {
  const auto axes = static_cast<std::int64_t>(config.axes_dims_rope.size());
  const std::int64_t pixels = shape.image_tokens + shape.reference_tokens;
  InputShapes shapes = {{"hidden_states", {shape.batch, pixels, config.in_channels}},
                        {"encoder_hidden_states", {shape.batch, shape.text_tokens, config.joint_attention_dim}},
                        {"pooled_projections", {shape.batch, config.pooled_projection_dim}},
                        {"timestep", {shape.batch}},
                        {"img_ids", {pixels, axes}},
                        {"txt_ids", {shape.text_tokens, axes}}};
  if (config.guidance_embeds) shapes.emplace("guidance", Shape{shape.batch});
  return shapes;
}

InputShapes forward_shapes(const nlohmann::json& json, const PassSize& size) {
  const FluxConfig config = parse_flux_config(json);
  const std::int64_t rows = parts_along("--height", size.height, kFluxTokenPixels),
                     columns = parts_along("--width", size.width, kFluxTokenPixels);
  return input_shapes(config, {.batch = size.batch, .image_tokens = rows * columns, .text_tokens = size.text_tokens});
}

Graph build_forward(const nlohmann::json& json, const InputShapes& given, const ParamSource& params) {
  const FluxConfig config = parse_flux_config(json);
  const Shape& image = require_shape(given, "hidden_states", {{"batch"}, {"image tokens"}, {"", config.in_channels}});
  const Shape& text = require_shape(given, "encoder_hidden_states",
                                    {{"", image[0]}, {"text tokens"}, {"", config.joint_attention_dim}});
  return build_flux_forward(config, {.batch = image[0], .image_tokens = image[1], .text_tokens = text[1]}, params);
}

/// The weights of AdaLN: 27% of FLUX.1-dev.
bool is_modulation(std::string_view param) {
  return param.find("norm") != std::string_view::npos && param.ends_with(".linear.weight");
}

}  // namespace

ValueId build_flux(Builder& builder, const FluxConfig& config, const FluxInputs& inputs, const ParamSource& params) {
  HR_CHECK_EQ(config.guidance_embeds, inputs.guidance != kNoValue);
  return Flux(builder, config, inputs, params).forward();
}

Graph build_flux_forward(const FluxConfig& config, const FluxShape& shape, const ParamSource& params) {
  Graph graph("flux_forward");
  const InputShapes shapes = input_shapes(config, shape);
  const auto input = [&](const char* name) {
    return graph.add_input(name, TensorType{.shape = shapes.find(name)->second});
  };
  FluxInputs inputs{.hidden_states = input("hidden_states"),
                    .encoder_hidden_states = input("encoder_hidden_states"),
                    .pooled_projections = input("pooled_projections"),
                    .timestep = input("timestep"),
                    .img_ids = input("img_ids"),
                    .txt_ids = input("txt_ids")};
  if (config.guidance_embeds) inputs.guidance = input("guidance");
  Builder builder(graph);
  ValueId sample = build_flux(builder, config, inputs, params);
  if (shape.reference_tokens != 0) sample = builder.slice(sample, 1, 0, shape.image_tokens);
  graph.add_output("sample", sample);
  return graph;
}

ComponentClass flux_transformer_class() {
  return {
      .name = kFluxTransformer,
      .passes = {{"forward",
                  {"hidden_states", "encoder_hidden_states", "pooled_projections", "timestep", "img_ids", "txt_ids"},
                  forward_shapes,
                  build_forward}},
      .named = {{"flux-dev", "FLUX.1-dev, 1024x1024; its checkpoint does not ship: give a folder or --random-weights",
                 flux_dev_config}},
      .is_modulation = is_modulation,
      .sized = flux_config_of_size,
      .adapters = flux_adapter_names(),
      .infer = infer_flux_config};
}

}  // namespace headroom
