#include "models/transformers/flux2.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "models/transformers/dual_stream.hpp"
#include "models/transformers/flux2_common.hpp"
#include "models/transformers/flux_adapter_names.hpp"

namespace headroom {
namespace {

constexpr DualStream::StreamNames kFlux2Image = {.modulation = {},
                                                 .norm1 = "norm1",
                                                 .norm2 = "norm2",
                                                 .feed_forward = "ff",
                                                 .projection = {"to_q", "to_k", "to_v", "norm_q", "norm_k"},
                                                 .out = "to_out.0"};
constexpr DualStream::StreamNames kFlux2Text = {
    .modulation = {},
    .norm1 = "norm1_context",
    .norm2 = "norm2_context",
    .feed_forward = "ff_context",
    .projection = {"add_q_proj", "add_k_proj", "add_v_proj", "norm_added_q", "norm_added_k"},
    .out = "to_add_out"};

class Flux2 {
 public:
  Flux2(Builder& builder, const Flux2Config& config, const Flux2Inputs& inputs, const ParamSource& params)
      : b_(builder),
        config_(config),
        inputs_(inputs),
        dim_(config.dim()),
        layers_(builder, params, config.num_attention_heads, config.attention_head_dim,
                {.has_bias = false,
                 .gated_width = config.feed_forward_width(),
                 .timestep_channels = config.timestep_guidance_channels,
                 .eps = config.eps,
                 .rope_theta = config.rope_theta}) {}

  ValueId forward() {
    const ValueId temb = conditioning();                                        // [batch, dim]
    ValueId image = layers_.linear("x_embedder", inputs_.hidden_states, dim_);  // [batch, image tokens, dim]
    ValueId text = layers_.linear("context_embedder", inputs_.encoder_hidden_states, dim_);  // [batch, text, dim]
    layers_.set_positions(inputs_.txt_ids, inputs_.img_ids, config_.axes_dims_rope);
    const std::vector<ValueId> image_mod = layers_.modulations({"double_stream_modulation_img", "linear"}, temb, 6);
    const std::vector<ValueId> text_mod = layers_.modulations({"double_stream_modulation_txt", "linear"}, temb, 6);
    const std::vector<ValueId> single_mod = layers_.modulations({"single_stream_modulation", "linear"}, temb, 3);
    for (std::int64_t i = 0; i < config_.num_layers; ++i) {
      const auto scope = b_.block("transformer_blocks." + std::to_string(i));
      std::tie(image, text) = layers_.block(kFlux2Image, kFlux2Text, image, text, image_mod, text_mod);
    }
    const std::int64_t text_tokens = b_.shape(text)[1];
    const std::int64_t image_tokens = b_.shape(image)[1];
    ValueId tokens = b_.concat({text, image}, 1);  // [batch, text + image tokens, dim]
    for (std::int64_t i = 0; i < config_.num_single_layers; ++i) {
      const auto scope = b_.block("single_transformer_blocks." + std::to_string(i));
      tokens = single_block(tokens, single_mod);
    }
    return layers_.head(b_.slice(tokens, 1, text_tokens, image_tokens), temb, config_.out_channels);
  }

 private:
  ValueId conditioning() {
    const auto scope = b_.scope("time_guidance_embed");
    const ValueId time = layers_.time_embedder("timestep_embedder", inputs_.timestep);
    if (!config_.guidance_embeds) return time;
    return b_.add(time, layers_.time_embedder("guidance_embedder", inputs_.guidance));  // [batch, dim]
  }

  /// Attention and feed-forward side by side: one matmul for all that the modulated tokens are multiplied with, and
  /// one for the results of both. `mod` is shift, scale and gate.
  ValueId single_block(ValueId tokens, const std::vector<ValueId>& mod) {
    const ValueId x = layers_.modulated_norm("norm", tokens, mod[1], mod[0]);
    const ValueId out = [&] {
      const auto scope = b_.scope("attn");
      const std::int64_t width = config_.feed_forward_width();
      const ValueId all = layers_.linear("to_qkv_mlp_proj", x, 3 * dim_ + 2 * width);
      const auto part = [&](std::int64_t first, std::int64_t size) { return b_.slice(all, 2, first, size); };
      const ValueId context =
          layers_.attention_of(kFlux2Image.projection, {part(0, dim_), part(dim_, dim_), part(2 * dim_, dim_)});
      const ValueId wide = layers_.gated(part(3 * dim_, 2 * width));         // [batch, tokens, width]
      return layers_.linear("to_out", b_.concat({context, wide}, 2), dim_);  // [batch, tokens, dim]
    }();
    return layers_.gated_residual(tokens, mod[2], out);
  }

  Builder& b_;
  const Flux2Config& config_;
  const Flux2Inputs& inputs_;
  std::int64_t dim_;
  DualStream layers_;
};

InputShapes flux2_forward_shapes(const nlohmann::json& json, const PassSize& size) {
  const Flux2Config config = parse_flux2_config(json);
  InputShapes shapes = flux2_common_shapes(config, size);
  if (config.guidance_embeds) shapes.emplace("guidance", Shape{size.batch});
  return shapes;
}

Graph build_flux2_forward(const nlohmann::json& json, const InputShapes& given, const ParamSource& params) {
  const Flux2Config config = parse_flux2_config(json);
  Graph graph("flux2_forward");
  auto inputs = add_flux2_inputs<Flux2Inputs>(graph, config, given);
  if (config.guidance_embeds)
    inputs.guidance = graph.add_input("guidance", TensorType{.shape = graph.type(inputs.timestep).shape});
  Builder builder(graph);
  graph.add_output("sample", build_flux2(builder, config, inputs, params));
  return graph;
}

bool is_flux2_modulation(std::string_view param) {
  return param.find("stream_modulation") != std::string_view::npos || param == "norm_out.linear.weight";
}

}  // namespace

ValueId build_flux2(Builder& builder, const Flux2Config& config, const Flux2Inputs& inputs, const ParamSource& params) {
  HR_CHECK_EQ(config.guidance_embeds, inputs.guidance != kNoValue);
  return Flux2(builder, config, inputs, params).forward();
}

ComponentClass flux2_transformer_class() {
  return {.name = kFlux2Transformer,
          .passes = {{"forward",
                      {"hidden_states", "encoder_hidden_states", "timestep", "img_ids", "txt_ids"},
                      flux2_forward_shapes,
                      build_flux2_forward}},
          .named = {{"flux-2-klein",
                     "FLUX.2 [klein] 4B, 1024x1024; its checkpoint does not ship: give a folder or --random-weights",
                     flux2_klein_config}},
          .is_modulation = is_flux2_modulation,
          .adapters = flux2_adapter_names(),
          .infer = infer_flux2_config};
}

}  // namespace headroom
