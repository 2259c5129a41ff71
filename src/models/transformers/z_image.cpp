#include "models/transformers/z_image.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "models/named_shapes.hpp"
#include "models/transformers/dual_stream.hpp"

namespace headroom {
namespace {

constexpr double kHeadNormEps = 1e-5, kLastNormEps = 1e-6;
constexpr std::int64_t kTimeChannels = 256, kTimeWidth = 1024;
constexpr DualStream::ProjectionNames kZImageProjection = {"to_q", "to_k", "to_v", "norm_q", "norm_k"};

class ZImage {
 public:
  ZImage(Builder& builder, const ZImageConfig& config, const ZImageInputs& inputs, const ParamSource& params)
      : b_(builder),
        config_(config),
        inputs_(inputs),
        params_(params),
        layers_(builder, params, config.n_heads, config.head_dim(),
                {.has_bias = false, .eps = kHeadNormEps, .rope_theta = config.rope_theta}),
        ends_(builder, params, config.n_heads, config.head_dim()) {}

  ValueId forward() {
    lay_out();
    const ValueId temb = embedded_time();  // [batch or 1, modulation_channels]
    const ValueId text = refined_text(), image = refined_image(temb);
    // Each image before its text.
    ValueId tokens = kNoValue;
    std::vector<ValueId> ids;
    std::vector<Span> windows, images;
    if (is_packed()) {
      std::vector<ValueId> parts;
      std::int64_t first = 0, first_text = 0;
      for (std::int64_t row = 0; row < batch_; ++row) {
        const std::int64_t of_text = text_tokens_[static_cast<std::size_t>(row)];
        parts.push_back(b_.slice(image, 0, row, 1));
        parts.push_back(b_.slice(text, 1, first_text, of_text));
        windows.push_back({first, padded_image_ + of_text});
        images.push_back({first, padded_image_});
        first += padded_image_ + of_text;
        first_text += of_text;
      }
      tokens = b_.concat(parts, 1);
    } else {
      tokens = b_.concat({image, text}, 1);
      images.push_back({0, padded_image_});
    }
    for (const std::int64_t of_text : text_tokens_) {
      ids.push_back(image_ids(of_text));
      ids.push_back(text_ids(of_text));
    }
    set_positions(ids, std::move(windows));
    for (std::int64_t i = 0; i < config_.n_layers; ++i)
      tokens = modulated_block("layers." + std::to_string(i), tokens, temb);
    std::vector<ValueId> rows;
    for (const auto& [first, size] : images) rows.push_back(b_.slice(tokens, 1, first, size));
    // Padding goes last, so that the blocks have one residual stream.
    const ValueId velocity = head(rows.size() == 1 ? rows.front() : b_.concat(rows, 0), temb);
    return padded_image_ == image_tokens_ ? velocity : b_.slice(velocity, 1, 0, image_tokens_);
  }

 private:
  using Span = DualStream::Span;

  [[nodiscard]] bool is_packed() const { return !inputs_.text_lengths.empty(); }

  void lay_out() {
    const Shape& image = b_.shape(inputs_.hidden_states);
    batch_ = image[0];
    image_tokens_ = image[1];
    padded_image_ = z_image_padded(image_tokens_);
    lengths_ = inputs_.text_lengths;
    if (!is_packed()) lengths_ = {b_.shape(inputs_.encoder_hidden_states)[1]};
    for (const std::int64_t length : lengths_) text_tokens_.push_back(z_image_padded(length));
  }

  /// The modulated blocks of packed rows take one vector for all.
  ValueId embedded_time() {
    const auto scope = b_.scope("t_embedder");
    const ValueId times = is_packed() ? b_.slice(inputs_.timestep, 0, 0, 1) : inputs_.timestep;
    const ValueId waves = b_.timestep_embedding(times, kTimeChannels, config_.t_scale);
    return ends_.linear("mlp.2", b_.silu(ends_.linear("mlp.0", waves, kTimeWidth)), config_.modulation_channels());
  }

  /// [batch or 1, tokens of all, dim]
  ValueId refined_text() {
    ValueId text = inputs_.encoder_hidden_states;
    {
      const auto scope = b_.scope("cap_embedder");
      text = ends_.linear("1", norm("0", text), config_.dim);
    }
    std::vector<ValueId> parts, ids;
    std::vector<Span> windows;
    std::int64_t first = 0, first_padded = 0;
    for (std::size_t i = 0; i < lengths_.size(); ++i) {
      const ValueId own = lengths_.size() == 1 ? text : b_.slice(text, 1, first, lengths_[i]);
      parts.push_back(padded("cap_pad_token", own, text_tokens_[i]));
      ids.push_back(text_ids(text_tokens_[i]));
      if (is_packed()) windows.push_back({first_padded, text_tokens_[i]});
      first += lengths_[i];
      first_padded += text_tokens_[i];
    }
    text = parts.size() == 1 ? parts.front() : b_.concat(parts, 1);
    set_positions(ids, std::move(windows));
    for (std::int64_t i = 0; i < config_.n_refiner_layers; ++i) {
      const auto scope = b_.scope("context_refiner." + std::to_string(i));
      text = b_.add(text, norm("attention_norm2", attention(norm("attention_norm1", text))));
      text = b_.add(text, norm("ffn_norm2", feed_forward(norm("ffn_norm1", text))));
    }
    return text;
  }

  /// [batch, padded image tokens, dim]
  ValueId refined_image(ValueId temb) {
    ValueId image = ends_.linear("all_x_embedder.2-1", inputs_.hidden_states, config_.dim);
    image = padded("x_pad_token", image, padded_image_);
    windows_.clear();
    rotations_.clear();
    for (const std::int64_t of_text : text_tokens_)
      rotations_.push_back(layers_.rotation(image_ids(of_text), config_.axes_dims));
    for (std::int64_t i = 0; i < config_.n_refiner_layers; ++i)
      image = modulated_block("noise_refiner." + std::to_string(i), image, temb);
    return image;
  }

  /// x[rows, n, dim] followed by as many learned tokens as are missing, [rows, tokens, dim]
  ValueId padded(std::string_view token, ValueId x, std::int64_t tokens) {
    const ValueId learned = read_param(b_, params_, token, {1, config_.dim});
    const std::int64_t rows = b_.shape(x)[0], missing = tokens - b_.shape(x)[1];
    if (missing == 0) return x;
    const ValueId one = b_.reshape(learned, {1, 1, config_.dim});
    return b_.concat({x, b_.broadcast(one, {rows, missing, config_.dim})}, 1);
  }

  void set_positions(const std::vector<ValueId>& ids, std::vector<Span> windows) {
    rotations_ = {layers_.rotation(ids.size() == 1 ? ids.front() : b_.concat(ids, 0), config_.axes_dims)};
    windows_ = std::move(windows);
  }

  /// (1, 0, 0), (2, 0, 0), ..., also of padding: [tokens, axes]
  ValueId text_ids(std::int64_t tokens) {
    std::vector<double> ids(static_cast<std::size_t>(tokens * kZImageAxes), 0.0);
    for (std::int64_t i = 0; i < tokens; ++i)
      ids[static_cast<std::size_t>(i * kZImageAxes)] = static_cast<double>(i + 1);
    return b_.constant(std::move(ids), {tokens, kZImageAxes});
  }

  /// The image is one place behind its text, and its padding at (0, 0, 0).
  ValueId image_ids(std::int64_t of_text) {
    const ValueId place = b_.constant({static_cast<double>(of_text + 1), 0, 0}, {1, kZImageAxes});
    const ValueId ids = b_.add(inputs_.img_ids, place);
    if (padded_image_ == image_tokens_) return ids;
    return b_.pad(ids, {0, 0}, {padded_image_ - image_tokens_, 0});
  }

  ValueId modulated_block(const std::string& name, ValueId x, ValueId temb) {
    const auto block = b_.block(name);
    const std::vector<ValueId> mod = [&] {
      const auto scope = b_.scope("adaLN_modulation");
      return b_.chunk(ends_.linear("0", temb, 4 * config_.dim), 4, 1);
    }();
    const auto scaled = [&](std::string_view of, ValueId scale) {
      return b_.mul(norm(of, x), b_.add_scalar(of_tokens(scale), 1.0));
    };
    const auto gated = [&](ValueId gate, ValueId branch) {
      return layers_.gated_residual(x, b_.tanh(of_tokens(gate)), branch);
    };
    x = gated(mod[1], norm("attention_norm2", attention(scaled("attention_norm1", mod[0]))));
    x = gated(mod[3], norm("ffn_norm2", feed_forward(scaled("ffn_norm1", mod[2]))));
    return x;
  }

  /// [rows, dim] -> [rows, 1, dim]
  ValueId of_tokens(ValueId vector) { return b_.reshape(vector, {b_.shape(vector)[0], 1, config_.dim}); }

  ValueId attention(ValueId x) {
    const auto scope = b_.scope("attention");
    const DualStream::Heads heads = layers_.project(kZImageProjection, x);
    const ValueId context = rotations_.size() == 1 ? layers_.attention_in(windows_, heads, rotations_.front())
                                                   : layers_.attention_of_rows(heads, rotations_);
    return layers_.linear("to_out.0", context, config_.dim);
  }

  ValueId feed_forward(ValueId x) {
    const auto scope = b_.scope("feed_forward");
    const std::int64_t width = config_.feed_forward_width();
    const ValueId gate = b_.silu(layers_.linear("w1", x, width));
    return layers_.linear("w2", b_.mul(gate, layers_.linear("w3", x, width)), config_.dim);
  }

  ValueId norm(std::string_view name, ValueId x) {
    const auto scope = b_.scope(name);
    return b_.rms_norm(x, read_param(b_, params_, "weight", {b_.shape(x)[-1]}), config_.norm_eps);
  }

  ValueId head(ValueId image, ValueId temb) {
    const auto scope = b_.scope("all_final_layer.2-1");
    const ValueId scale = [&] {
      const auto modulation = b_.scope("adaLN_modulation");
      return of_tokens(ends_.linear("1", b_.silu(temb), config_.dim));
    }();
    const ValueId x = b_.mul(b_.layer_norm(image, kLastNormEps), b_.add_scalar(scale, 1.0));
    return ends_.linear("linear", x, config_.token_channels());  // [batch, image tokens, token channels]
  }

  Builder& b_;
  const ZImageConfig& config_;
  const ZImageInputs& inputs_;
  const ParamSource& params_;
  DualStream layers_, ends_;  // of the blocks, without biases, and of what is around them, with biases
  // Of the blocks that are built: the positions of all rows or of each, and the tokens that attend to each other.
  std::vector<DualStream::Rotation> rotations_;
  std::vector<Span> windows_;
  std::int64_t batch_ = 0, image_tokens_ = 0, padded_image_ = 0;
  std::vector<std::int64_t> lengths_, text_tokens_;  // of the texts, without and with padding; one if all are equal
};

InputShapes z_image_shapes(const ZImageConfig& config, std::int64_t batch, std::int64_t image_tokens,
                           std::int64_t text_tokens) {
  return {{"hidden_states", {batch, image_tokens, config.token_channels()}},
          {"encoder_hidden_states", {batch, text_tokens, config.cap_feat_dim}},
          {"timestep", {batch}},
          {"img_ids", {image_tokens, kZImageAxes}}};
}

InputShapes z_image_forward_shapes(const nlohmann::json& json, const PassSize& size) {
  const std::int64_t rows = parts_along("--height", size.height, kZImageTokenPixels),
                     columns = parts_along("--width", size.width, kZImageTokenPixels);
  return z_image_shapes(parse_z_image_config(json), size.batch, rows * columns, size.text_tokens);
}

Graph build_z_image_forward(const nlohmann::json& json, const InputShapes& given, const ParamSource& params) {
  const ZImageConfig config = parse_z_image_config(json);
  const Shape& image =
      require_shape(given, "hidden_states", {{"batch"}, {"image tokens"}, {"", config.token_channels()}});
  const Shape& text =
      require_shape(given, "encoder_hidden_states", {{"", image[0]}, {"text tokens"}, {"", config.cap_feat_dim}});
  Graph graph("z_image_forward");
  const InputShapes shapes = z_image_shapes(config, image[0], image[1], text[1]);
  const auto input = [&](const char* name) {
    return graph.add_input(name, TensorType{.shape = shapes.find(name)->second});
  };
  const ZImageInputs inputs{.hidden_states = input("hidden_states"),
                            .encoder_hidden_states = input("encoder_hidden_states"),
                            .timestep = input("timestep"),
                            .img_ids = input("img_ids")};
  Builder builder(graph);
  graph.add_output("sample", build_z_image(builder, config, inputs, params));
  return graph;
}

bool is_z_image_modulation(std::string_view param) {
  return param.find("adaLN_modulation.") != std::string_view::npos && param.ends_with(".weight");
}

/// A norm that the authors' file has and their model does not use.
bool is_z_image_unused(std::string_view tensor) { return tensor == "norm_final.weight"; }

/// The authors' names, which are those of Lumina 2.
std::vector<ModuleAlias> z_image_aliases(const nlohmann::json& json) {
  const ZImageConfig config = parse_z_image_config(json);
  std::vector<ModuleAlias> aliases = {
      {.name = "x_embedder", .modules = {"all_x_embedder.2-1"}},
      {.name = "final_layer.linear", .modules = {"all_final_layer.2-1.linear"}},
      {.name = "final_layer.adaLN_modulation.1", .modules = {"all_final_layer.2-1.adaLN_modulation.1"}}};
  const auto add_block = [&](const std::string& block) {
    const std::string of = block + ".attention.";
    aliases.push_back({.name = of + "qkv", .modules = {of + "to_q", of + "to_k", of + "to_v"}});
    aliases.push_back({.name = of + "out", .modules = {of + "to_out.0"}});
    aliases.push_back({.name = of + "q_norm", .modules = {of + "norm_q"}});
    aliases.push_back({.name = of + "k_norm", .modules = {of + "norm_k"}});
  };
  for (std::int64_t i = 0; i < config.n_layers; ++i) add_block(fmt::format("layers.{}", i));
  for (const char* const refiner : {"noise_refiner", "context_refiner"})
    for (std::int64_t i = 0; i < config.n_refiner_layers; ++i) add_block(fmt::format("{}.{}", refiner, i));
  return aliases;
}

/// Of the authors' file.
nlohmann::json infer_z_image_config(const NamedShapes& shapes) {
  constexpr std::int64_t kPatch = 4;  // latents of a token
  const std::string norm = "layers.0.attention.q_norm.weight";
  const std::int64_t dim = shapes.extent("x_embedder.weight", 0), channels = shapes.extent("x_embedder.weight", 1),
                     head_dim = shapes.extent(norm, 0);
  if (dim % head_dim != 0 || channels % kPatch != 0)
    fail("{}: {} channels are no multiple of heads of {}, or {} inputs none of patches of 2x2", shapes.context(), dim,
         head_dim, channels);
  return {{"_class_name", kZImageTransformer},
          {"in_channels", channels / kPatch},
          {"dim", dim},
          {"n_layers", shapes.count("layers.{}.attention.q_norm.weight")},
          {"n_refiner_layers", shapes.count("noise_refiner.{}.attention.q_norm.weight")},
          {"n_heads", dim / head_dim},
          {"n_kv_heads", dim / head_dim},
          {"cap_feat_dim", shapes.extent("cap_embedder.0.weight", 0)}};
}

}  // namespace

ValueId build_z_image(Builder& builder, const ZImageConfig& config, const ZImageInputs& inputs,
                      const ParamSource& params) {
  return ZImage(builder, config, inputs, params).forward();
}

ComponentClass z_image_transformer_class() {
  return {.name = kZImageTransformer,
          .passes = {{"forward",
                      {"hidden_states", "encoder_hidden_states", "timestep", "img_ids"},
                      z_image_forward_shapes,
                      build_z_image_forward}},
          .named = {{"z-image",
                     "Z-Image and Z-Image-Turbo, 1024x1024; its checkpoint does not ship: give a folder or "
                     "--random-weights",
                     z_image_config}},
          .is_modulation = is_z_image_modulation,
          .is_unread = is_z_image_unused,
          .adapters = {.prefixes = {"transformer.", "diffusion_model.", "model.diffusion_model.", "lora_unet_",
                                    "lora_transformer_", "lycoris_", ""},
                       .aliases = z_image_aliases},
          .infer = infer_z_image_config};
}

}  // namespace headroom
