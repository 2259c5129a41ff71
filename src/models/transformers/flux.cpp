#include "models/transformers/flux.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "models/transformers/flux_adapter_names.hpp"

namespace headroom {
namespace {

constexpr double kNormEps = 1e-6;
constexpr std::int64_t kTimestepChannels = 256;
constexpr double kTimestepScale = 1000.0;  // timestep and guidance are given in [0, 1] and embedded in thousandths

/// Queries, keys and values of one stream, [batch, heads, tokens, head_dim].
struct Heads {
  ValueId q, k, v;
};

/// AdaLN parameters of one norm and its residual branch, each [batch, 1, dim].
struct Modulation {
  ValueId shift, scale, gate;
};

class Flux {
 public:
  Flux(Builder& builder, const FluxConfig& config, const FluxInputs& inputs, const ParamSource& params)
      : b_(builder), config_(config), inputs_(inputs), params_(params), dim_(config.dim()) {}

  ValueId forward() {
    const ValueId temb = conditioning();                                             // [batch, dim]
    ValueId image = linear("x_embedder", inputs_.hidden_states, dim_);               // [batch, image_tokens, dim]
    ValueId text = linear("context_embedder", inputs_.encoder_hidden_states, dim_);  // [batch, text_tokens, dim]
    const ValueId ids = b_.concat({inputs_.txt_ids, inputs_.img_ids}, 0);            // [tokens, axes]
    std::tie(cos_, sin_) = b_.rope_table(ids, config_.axes_dims_rope);               // [tokens, head_dim / 2]

    for (std::int64_t i = 0; i < config_.num_layers; ++i) {
      const auto scope = b_.block("transformer_blocks." + std::to_string(i));
      std::tie(image, text) = double_block(image, text, temb);
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
    return linear("proj_out", norm_out(image, temb), config_.out_channels);  // [batch, image_tokens, out_channels]
  }

 private:
  ValueId weight(std::string_view name, const Shape& shape) { return read_param(b_, params_, name, shape); }

  /// x[..., in] -> [..., out] with a bias, as in every projection of FLUX.
  ValueId linear(std::string_view name, ValueId x, std::int64_t out) {
    const auto scope = b_.scope(name);
    const ValueId w = weight("weight", {out, b_.shape(x)[-1]});
    const ValueId bias = weight("bias", {out});
    return b_.linear(x, w, {.bias = bias});
  }

  /// linear_1, SiLU, linear_2: the embedding of each conditioning signal, [batch, in] -> [batch, dim].
  ValueId embedder(std::string_view name, ValueId x) {
    const auto scope = b_.scope(name);
    return linear("linear_2", b_.silu(linear("linear_1", x, dim_)), dim_);
  }

  ValueId conditioning() {
    const auto scope = b_.scope("time_text_embed");
    ValueId temb =
        embedder("timestep_embedder", b_.timestep_embedding(inputs_.timestep, kTimestepChannels, kTimestepScale));
    if (config_.guidance_embeds)
      temb = b_.add(temb, embedder("guidance_embedder",
                                   b_.timestep_embedding(inputs_.guidance, kTimestepChannels, kTimestepScale)));
    return b_.add(temb, embedder("text_embedder", inputs_.pooled_projections));  // [batch, dim]
  }

  /// The `count` vectors that AdaLN computes from temb, each [batch, 1, dim].
  std::vector<ValueId> modulations(std::string_view norm, ValueId temb, int count) {
    const auto scope = b_.scope(norm);
    const ValueId all = linear("linear", b_.silu(temb), count * dim_);  // [batch, count * dim]
    std::vector<ValueId> vectors = b_.chunk(all, count, 1);
    for (ValueId& vector : vectors) vector = b_.reshape(vector, {b_.shape(vector)[0], 1, dim_});
    return vectors;
  }

  /// layer_norm(x) * (1 + scale) + shift
  ValueId modulated_norm(std::string_view name, ValueId x, ValueId scale, ValueId shift) {
    const auto scope = b_.scope(name);
    return b_.add(b_.mul(b_.layer_norm(x, kNormEps), b_.add_scalar(scale, 1.0)), shift);
  }

  ValueId gated_residual(ValueId residual, ValueId gate, ValueId x) { return b_.add(residual, b_.mul(gate, x)); }

  /// [batch, tokens, dim] -> [batch, heads, tokens, head_dim]
  ValueId split_heads(ValueId x) {
    const Shape& shape = b_.shape(x);
    const ValueId heads = b_.reshape(x, {shape[0], shape[1], config_.num_attention_heads, config_.attention_head_dim});
    return b_.transpose(heads, {0, 2, 1, 3});
  }

  ValueId normed_heads(std::string_view norm, ValueId x) {
    const ValueId heads = split_heads(x);
    const auto scope = b_.scope(norm);
    return b_.rms_norm(heads, weight("weight", {config_.attention_head_dim}), kNormEps);
  }

  struct ProjectionNames {
    std::string_view q, k, v, norm_q, norm_k;
  };

  Heads project(const ProjectionNames& names, ValueId x) {
    const ValueId q = linear(names.q, x, dim_);
    const ValueId k = linear(names.k, x, dim_);
    const ValueId v = linear(names.v, x, dim_);
    return {normed_heads(names.norm_q, q), normed_heads(names.norm_k, k), split_heads(v)};
  }

  /// softmax(rope(q) rope(k)^T / sqrt(head_dim)) v, [batch, heads, tokens, head_dim] -> [batch, tokens, dim]
  ValueId attention(const Heads& heads) {
    const double scale = 1.0 / std::sqrt(static_cast<double>(config_.attention_head_dim));
    const ValueId q = b_.mul_scalar(b_.rope(heads.q, cos_, sin_), scale);
    const ValueId k = b_.rope(heads.k, cos_, sin_);
    const ValueId scores = b_.matmul(q, k, /*transpose_b=*/true);    // [batch, heads, tokens, tokens]
    const ValueId context = b_.matmul(b_.softmax(scores), heads.v);  // [batch, heads, tokens, head_dim]
    const ValueId tokens = b_.transpose(context, {0, 2, 1, 3});      // [batch, tokens, heads, head_dim]
    return b_.reshape(tokens, {b_.shape(tokens)[0], b_.shape(tokens)[1], dim_});
  }

  ValueId feed_forward(std::string_view name, ValueId x) {
    const auto scope = b_.scope(name);
    return linear("net.2", b_.gelu(linear("net.0.proj", x, 4 * dim_)), dim_);
  }

  /// Joint attention over [text, image]; all other layers are separate per stream.
  std::pair<ValueId, ValueId> double_block(ValueId image, ValueId text, ValueId temb) {
    const std::vector<ValueId> image_mod = modulations("norm1", temb, 6);
    const std::vector<ValueId> text_mod = modulations("norm1_context", temb, 6);
    const Modulation image_attn{image_mod[0], image_mod[1], image_mod[2]},
        image_mlp{image_mod[3], image_mod[4], image_mod[5]};
    const Modulation text_attn{text_mod[0], text_mod[1], text_mod[2]}, text_mlp{text_mod[3], text_mod[4], text_mod[5]};

    const ValueId image_in = modulated_norm("norm1", image, image_attn.scale, image_attn.shift);
    const ValueId text_in = modulated_norm("norm1_context", text, text_attn.scale, text_attn.shift);
    const auto [image_out, text_out] = joint_attention(image_in, text_in);
    image = gated_residual(image, image_attn.gate, image_out);
    text = gated_residual(text, text_attn.gate, text_out);

    const ValueId image_ff = feed_forward("ff", modulated_norm("norm2", image, image_mlp.scale, image_mlp.shift));
    const ValueId text_ff =
        feed_forward("ff_context", modulated_norm("norm2_context", text, text_mlp.scale, text_mlp.shift));
    return {gated_residual(image, image_mlp.gate, image_ff), gated_residual(text, text_mlp.gate, text_ff)};
  }

  std::pair<ValueId, ValueId> joint_attention(ValueId image, ValueId text) {
    const auto scope = b_.scope("attn");
    const std::int64_t text_tokens = b_.shape(text)[1];
    const std::int64_t image_tokens = b_.shape(image)[1];
    const Heads of_image = project({"to_q", "to_k", "to_v", "norm_q", "norm_k"}, image);
    const Heads of_text = project({"add_q_proj", "add_k_proj", "add_v_proj", "norm_added_q", "norm_added_k"}, text);
    const Heads joint{b_.concat({of_text.q, of_image.q}, 2), b_.concat({of_text.k, of_image.k}, 2),
                      b_.concat({of_text.v, of_image.v}, 2)};
    const ValueId context = attention(joint);  // [batch, text + image tokens, dim]
    const ValueId image_out = linear("to_out.0", b_.slice(context, 1, text_tokens, image_tokens), dim_);
    const ValueId text_out = linear("to_add_out", b_.slice(context, 1, 0, text_tokens), dim_);
    return {image_out, text_out};
  }

  /// Attention and the MLP in parallel on one normed input, both projected back by one matmul.
  ValueId single_block(ValueId tokens, ValueId temb) {
    const std::vector<ValueId> mod = modulations("norm", temb, 3);
    const Modulation modulation{mod[0], mod[1], mod[2]};
    const ValueId x = modulated_norm("norm", tokens, modulation.scale, modulation.shift);
    const ValueId mlp = b_.gelu(linear("proj_mlp", x, 4 * dim_));  // [batch, tokens, 4 * dim]
    const ValueId context = [&] {
      const auto scope = b_.scope("attn");
      return attention(project({"to_q", "to_k", "to_v", "norm_q", "norm_k"}, x));  // [batch, tokens, dim]
    }();
    return gated_residual(tokens, modulation.gate, linear("proj_out", b_.concat({context, mlp}, 2), dim_));
  }

  ValueId norm_out(ValueId x, ValueId temb) {
    const std::vector<ValueId> mod = modulations("norm_out", temb, 2);  // scale first, unlike in the blocks
    return modulated_norm("norm_out", x, mod[0], mod[1]);
  }

  Builder& b_;
  const FluxConfig& config_;
  const FluxInputs& inputs_;
  const ParamSource& params_;
  std::int64_t dim_;
  ValueId cos_ = kNoValue;
  ValueId sin_ = kNoValue;
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
      .adapters = flux_adapter_names()};
}

}  // namespace headroom
