#include "models/transformers/flux3.hpp"

#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "models/transformers/dual_stream.hpp"
#include "models/transformers/flux2_common.hpp"
#include "models/transformers/flux_adapter_names.hpp"

namespace headroom {
namespace {

constexpr const char* kReferences = "image_cond_hidden_states";
constexpr const char* kReferenceIds = "image_cond_ids";
constexpr DualStream::ProjectionNames kFlux3Projection = {"to_q", "to_k", "to_v", "norm_q", "norm_k"};

using Span = DualStream::Span;

class Flux3 {
 public:
  Flux3(Builder& builder, const Flux3Config& config, const Flux3Inputs& inputs, const ParamSource& params)
      : b_(builder),
        config_(config),
        inputs_(inputs),
        dim_(config.dim()),
        layers_(builder, params, config.num_attention_heads, config.attention_head_dim,
                {.has_bias = false,
                 .gated_width = config.feed_forward_width(),
                 .timestep_channels = config.timestep_channels,
                 .eps = config.eps,
                 .rope_theta = config.rope_theta}),
        rotation_{} {}

  ValueId forward() {
    const std::int64_t batch = b_.shape(inputs_.hidden_states)[0];
    const ValueId target = config_.flow_map ? embedded("target_timestep_embedder", inputs_.target_timestep) : kNoValue;
    const ValueId image_temb = plus(embedded("timestep_embedder", inputs_.timestep), target);  // [batch, dim]
    const ValueId zero_temb = plus(embedded("timestep_embedder", zeros(batch)), target);

    const ValueId given_text = inputs_.text_states == kNoValue ? inputs_.encoder_hidden_states : inputs_.text_states;
    const ValueId text_temb = rows_of(zero_temb, b_.shape(given_text)[0]);
    const ValueId text = inputs_.text_states == kNoValue ? text_stream(embedded_text(), text_temb) : given_text;
    const ValueId image = image_stream(image_temb);
    const ValueId references =
        inputs_.image_cond_hidden_states == kNoValue ? kNoValue : reference_stream(zero_temb, batch);

    lay_out(batch, text, references);
    ValueId tokens = joined(text, image, references);  // [batch or 1, tokens, dim]
    rotation_ = joint_rotation();
    const Vectors mod = joint_modulation(image_temb, zero_temb, references != kNoValue);
    for (std::int64_t i = 0; i < config_.num_single_layers; ++i) {
      const auto scope = b_.block("single_transformer_blocks." + std::to_string(i));
      tokens = block(tokens, mod, windows_);
    }
    return layers_.head(image_of(tokens), image_temb, config_.in_channels);  // [batch, image tokens, in_channels]
  }

  /// See build_flux3_text().
  ValueId text_of_all_steps(ValueId targets) {
    const ValueId text = embedded_text();  // [rows, tokens, dim]
    const Shape of_text = b_.shape(text);
    const std::int64_t steps = b_.shape(targets)[0], rows = of_text[0], all = steps * rows;
    const ValueId of_rows = b_.reshape(b_.slice(targets, 1, 0, rows), {all});
    const ValueId temb =
        plus(embedded("timestep_embedder", zeros(all)), embedded("target_timestep_embedder", of_rows));  // [all, dim]
    const ValueId repeated =
        b_.broadcast(b_.reshape(text, {1, rows, of_text[1], dim_}), {steps, rows, of_text[1], dim_});
    const ValueId states = text_stream(b_.reshape(repeated, {all, of_text[1], dim_}), temb);
    return b_.reshape(states, {steps, rows, of_text[1], dim_});
  }

 private:
  /// What AdaLN computes, [batch, 1, dim], or in joint blocks [batch, tokens, dim].
  struct Vectors {
    ValueId shift, scale, gate;
  };

  [[nodiscard]] bool is_packed() const { return !inputs_.text_lengths.empty(); }
  ValueId zeros(std::int64_t count) {
    return b_.constant(std::vector<double>(static_cast<std::size_t>(count), 0.0), {count});
  }
  ValueId embedded(std::string_view name, ValueId numbers) { return layers_.time_embedder(name, numbers); }
  ValueId plus(ValueId x, ValueId other) { return other == kNoValue ? x : b_.add(x, other); }
  ValueId rows_of(ValueId temb, std::int64_t rows) {
    return b_.shape(temb)[0] == rows ? temb : b_.slice(temb, 0, 0, rows);
  }
  Vectors modulation(const std::string& module, ValueId temb) {
    const std::vector<ValueId> vectors = layers_.modulations({module, "linear"}, temb, 3);
    return {vectors[0], vectors[1], vectors[2]};
  }
  ValueId embedded_text() { return layers_.linear("context_embedder", inputs_.encoder_hidden_states, dim_); }

  /// The text through its own blocks.
  ValueId text_stream(ValueId text, ValueId temb) {
    std::vector<Span> windows;
    ValueId ids = inputs_.txt_ids;
    if (is_packed()) {
      std::vector<ValueId> parts;
      std::int64_t first = 0;
      for (const std::int64_t length : inputs_.text_lengths) {
        windows.push_back({first, length});
        parts.push_back(first_ids(length));
        first += length;
      }
      ids = b_.concat(parts, 0);
    }
    rotation_ = layers_.rotation(ids, config_.axes_dims_rope);
    const Vectors mod = modulation("early_stream_modulations.txt", temb);
    for (std::int64_t i = 0; i < config_.num_layers; ++i) {
      const auto scope = b_.scope("txt_mode_blocks." + std::to_string(i));
      text = block(text, mod, windows);
    }
    return text;
  }

  ValueId image_stream(ValueId temb) {
    ValueId image = layers_.linear("x_embedders.image", inputs_.hidden_states, dim_);  // [batch, image tokens, dim]
    rotation_ = layers_.rotation(inputs_.img_ids, config_.axes_dims_rope);
    const Vectors mod = modulation("early_stream_modulations.image", temb);
    for (std::int64_t i = 0; i < config_.num_layers; ++i) {
      const auto scope = b_.block("mode_blocks.image." + std::to_string(i));
      image = block(image, mod, {});
    }
    return image;
  }

  /// References are the same in both passes of guidance: their own blocks run once.
  ValueId reference_stream(ValueId zero_temb, std::int64_t batch) {
    const std::int64_t rows = b_.shape(inputs_.image_cond_hidden_states)[0];
    ValueId references = layers_.linear("x_embedders.image_cond", inputs_.image_cond_hidden_states, dim_);
    rotation_ = layers_.rotation(inputs_.image_cond_ids, config_.axes_dims_rope);
    const Vectors mod = modulation("early_stream_modulations.image_cond", rows_of(zero_temb, rows));
    for (std::int64_t i = 0; i < config_.num_layers; ++i) {
      const auto scope = b_.scope("mode_blocks.image_cond." + std::to_string(i));
      references = block(references, mod, {});
    }
    if (rows == batch) return references;
    return b_.concat(std::vector<ValueId>(static_cast<std::size_t>(batch / rows), references), 0);
  }

  /// Attention and feed-forward side by side, of the same modulated tokens.
  ValueId block(ValueId tokens, const Vectors& mod, const std::vector<Span>& windows) {
    const ValueId x = layers_.modulated_norm("norm", tokens, mod.scale, mod.shift);
    const ValueId attended = [&] {
      const auto scope = b_.scope("attn");
      return layers_.linear("to_out.0", layers_.attention_in(windows, layers_.project(kFlux3Projection, x), rotation_),
                            dim_);
    }();
    const ValueId fed = layers_.feed_forward("ff", x);
    return layers_.gated_residual(tokens, mod.gate, b_.add(attended, fed));
  }

  /// Places of the joint tokens: all of a row next to each other, its text, image and references. Rows of texts of one
  /// length are a batch; others follow each other in a batch of one.
  void lay_out(std::int64_t batch, ValueId text, ValueId references) {
    batch_ = batch;
    image_tokens_ = b_.shape(inputs_.hidden_states)[1];
    reference_tokens_ = references == kNoValue ? 0 : b_.shape(references)[1];
    lengths_ = is_packed() ? inputs_.text_lengths : std::vector<std::int64_t>{b_.shape(text)[1]};
    std::int64_t first = 0;
    for (const std::int64_t length : lengths_) {
      const std::int64_t size = length + image_tokens_ + reference_tokens_;
      if (is_packed()) windows_.push_back({first, size});
      images_.push_back({first + length, image_tokens_});
      for (std::int64_t i = 0; i < size; ++i) {
        is_text_.push_back(i < length ? 1 : 0);
        is_image_.push_back(i >= length && i < length + image_tokens_ ? 1 : 0);
      }
      first += size;
    }
  }

  ValueId joined(ValueId text, ValueId image, ValueId references) {
    std::vector<ValueId> parts;
    if (!is_packed()) {
      parts = {text, image};
      if (references != kNoValue) parts.push_back(references);
      return b_.concat(parts, 1);
    }
    std::int64_t first = 0;
    for (std::int64_t row = 0; row < batch_; ++row) {
      const std::int64_t length = lengths_[static_cast<std::size_t>(row)];
      parts.push_back(b_.slice(text, 1, first, length));
      parts.push_back(b_.slice(image, 0, row, 1));
      if (references != kNoValue) parts.push_back(b_.slice(references, 0, row, 1));
      first += length;
    }
    return b_.concat(parts, 1);
  }

  ValueId image_of(ValueId tokens) {
    std::vector<ValueId> rows;
    for (const Span& image : images_) rows.push_back(b_.slice(tokens, 1, image.first, image.size));
    return rows.size() == 1 ? rows.front() : b_.concat(rows, 0);
  }

  ValueId first_ids(std::int64_t length) {
    return length == b_.shape(inputs_.txt_ids)[0] ? inputs_.txt_ids : b_.slice(inputs_.txt_ids, 0, 0, length);
  }

  DualStream::Rotation joint_rotation() {
    std::vector<ValueId> ids;
    for (const std::int64_t length : lengths_) {
      ids.push_back(first_ids(length));
      ids.push_back(inputs_.img_ids);
      if (reference_tokens_ != 0) ids.push_back(inputs_.image_cond_ids);
    }
    return layers_.rotation(b_.concat(ids, 0), config_.axes_dims_rope);
  }

  /// The vectors of each token, by what it is of. A kernel that reads them chooses among three vectors.
  Vectors joint_modulation(ValueId image_temb, ValueId zero_temb, bool has_references) {
    const std::int64_t rows = is_packed() ? 1 : batch_;
    const auto made = [&](const char* mode, ValueId temb) {
      return modulation(std::string("single_stream_modulations.") + mode, rows_of(temb, rows));
    };
    const Vectors text = made("txt", zero_temb), image = made("image", image_temb);
    const Vectors reference = has_references ? made("image_cond", zero_temb) : image;
    const auto tokens = static_cast<std::int64_t>(is_text_.size());
    const ValueId of_text = b_.constant(is_text_, {tokens, 1}, DType::kBool);
    const ValueId of_image = b_.constant(is_image_, {tokens, 1}, DType::kBool);
    const auto chosen = [&](ValueId Vectors::*which) {
      const ValueId others = has_references ? b_.where(of_image, image.*which, reference.*which) : image.*which;
      return b_.where(of_text, text.*which, others);  // [rows, tokens, dim]
    };
    return {chosen(&Vectors::shift), chosen(&Vectors::scale), chosen(&Vectors::gate)};
  }

  Builder& b_;
  const Flux3Config& config_;
  const Flux3Inputs& inputs_;
  std::int64_t dim_;
  DualStream layers_;
  DualStream::Rotation rotation_;  // of the blocks that are built
  // of the joint tokens
  std::int64_t batch_ = 0, image_tokens_ = 0, reference_tokens_ = 0;
  std::vector<std::int64_t> lengths_;  // of the texts of all rows, or of the one that a batch has in common
  std::vector<Span> windows_, images_;
  std::vector<double> is_text_, is_image_;
};

InputShapes flux3_forward_shapes(const nlohmann::json& json, const PassSize& size) {
  const Flux3Config config = parse_flux3_config(json);
  InputShapes shapes = flux2_common_shapes(config, size);
  if (config.flow_map) shapes.emplace("target_timestep", Shape{size.batch});
  return shapes;
}

/// One reference of the image's size.
InputShapes flux3_reference_shapes(const nlohmann::json& json, const PassSize& size) {
  InputShapes shapes = flux3_forward_shapes(json, size);
  const std::int64_t tokens = shapes.at("hidden_states")[1];
  shapes.emplace(kReferences, Shape{size.batch, tokens, parse_flux3_config(json).cond_in_channels});
  shapes.emplace(kReferenceIds, Shape{tokens, kFlux2Axes});
  return shapes;
}

Graph build_flux3_forward(const nlohmann::json& json, const InputShapes& given, const ParamSource& params) {
  const Flux3Config config = parse_flux3_config(json);
  Graph graph("flux3_forward");
  auto inputs = add_flux2_inputs<Flux3Inputs>(graph, config, given);
  const std::int64_t batch = graph.type(inputs.hidden_states).shape[0];
  if (config.flow_map) inputs.target_timestep = graph.add_input("target_timestep", TensorType{.shape = {batch}});
  if (given.contains(kReferences)) {
    const Shape& references =
        require_shape(given, kReferences, {{"", batch}, {"reference tokens"}, {"", config.cond_in_channels}});
    inputs.image_cond_hidden_states = graph.add_input(kReferences, TensorType{.shape = references});
    inputs.image_cond_ids = graph.add_input(kReferenceIds, TensorType{.shape = {references[1], kFlux2Axes}});
  }
  Builder builder(graph);
  graph.add_output("sample", build_flux3(builder, config, inputs, params));
  return graph;
}

bool is_flux3_modulation(std::string_view param) {
  return param.find("stream_modulations.") != std::string_view::npos || param == "norm_out.linear.weight";
}

/// Heads of training, which checkpoints of the authors may hold.
bool is_flux3_training(std::string_view tensor) { return tensor.starts_with("repa_projectors."); }

}  // namespace

ValueId build_flux3(Builder& builder, const Flux3Config& config, const Flux3Inputs& inputs, const ParamSource& params) {
  HR_CHECK_EQ(config.flow_map, inputs.target_timestep != kNoValue);
  return Flux3(builder, config, inputs, params).forward();
}

ValueId build_flux3_text(Builder& builder, const Flux3Config& config, const Flux3Inputs& inputs, ValueId targets,
                         const ParamSource& params) {
  HR_CHECK(config.flow_map);
  return Flux3(builder, config, inputs, params).text_of_all_steps(targets);
}

ComponentClass flux3_transformer_class() {
  return {.name = kFlux3Transformer,
          .passes = {{"forward",
                      {"hidden_states", "encoder_hidden_states", "timestep", "img_ids", "txt_ids"},
                      flux3_forward_shapes,
                      build_flux3_forward},
                     {"forward-references",
                      {"hidden_states", "encoder_hidden_states", "timestep", "img_ids", "txt_ids", kReferences,
                       kReferenceIds},
                      flux3_reference_shapes,
                      build_flux3_forward}},
          .named = {{"flux-3-image-klein",
                     "FLUX.3 [klein], distilled, 1024x1024; its checkpoint does not ship: give a folder or "
                     "--random-weights",
                     flux3_klein_config},
                    {"flux-3-image-klein-base",
                     "FLUX.3 [klein] base, 1024x1024; its checkpoint does not ship: give a folder or --random-weights",
                     flux3_klein_base_config}},
          .is_modulation = is_flux3_modulation,
          .is_unread = is_flux3_training,
          .adapters = flux3_adapter_names(),
          .infer = infer_flux3_config};
}

}  // namespace headroom
