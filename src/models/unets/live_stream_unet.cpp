#include "models/unets/live_stream_unet.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "models/attention.hpp"
#include "models/config.hpp"
#include "models/image_layers.hpp"

namespace headroom {
namespace {

constexpr double kMemoryNormEps = 1e-5;

class LiveStreamUNet {
 public:
  LiveStreamUNet(Builder& builder, const LiveStreamUNetConfig& config, const ParamSource& params)
      : b_(builder), config_(config), params_(params), layers_(builder, params, config.norm()) {}

  LiveStreamStep step(const LiveStreamInputs& in) {
    const ValueId waves = time_sinusoids(b_, config_, in.timestep, config_.block_out_channels.front());
    const ValueId time = time_embedding(b_, config_, "time_embedding", waves, params_);
    const ValueId remembered = read(in.memory, in.position);
    ValueId features = kNoValue;
    const Attend attend = [&](const UNetPlace& place, ValueId x) {
      const ValueId seen = attention(place.name, x, remembered);
      if (place.is_middle) features = layers_.to_tokens(seen);  // [b, h w, c]
      return seen;
    };
    const ValueId frames = b_.concat({in.sample, in.frame, in.previous}, 1);  // [b, in_channels, h, w]
    const ValueId prediction = build_unet(b_, config_, frames, time, attend, params_);
    return {.prediction = prediction, .features = features};
  }

  ValueId blend(ValueId denoised, ValueId frame, ValueId previous) {
    const auto scope = b_.scope("temporal_blend");
    const std::int64_t width = config_.block_out_channels.front();
    const ValueId frames = b_.concat({denoised, frame, previous}, 1);              // [b, in_channels, h, w]
    const ValueId hidden = b_.silu(layers_.conv("conv_in", frames, width, 3, 1));  // [b, width, h, w]
    const ValueId weight = b_.sigmoid(layers_.conv("conv_out", hidden, 1, 3, 1));  // [b, 1, h, w]
    return b_.clamp(b_.add(previous, b_.mul(weight, b_.sub(denoised, previous))), -1, 1);
  }

  LiveStreamMemory remember(ValueId features, const LiveStreamMemory& now) {
    const auto scope = b_.scope("memory");
    const std::int64_t frames = config_.memory_frames, dim = config_.memory_dim;
    const ValueId pooled = b_.mean(features, {1});                                                        // [s, c]
    const ValueId row = layers_.layer_norm("norm", layers_.linear("proj", pooled, dim), kMemoryNormEps);  // [s, dim]
    const ValueId is_next = b_.equal(places({frames, 1}), now.position);                                  // [frames, 1]
    return {.memory = b_.where(is_next, b_.reshape(row, {-1, 1, dim}), now.memory),
            .position = around_the_ring(b_.add_scalar(now.position, 1))};
  }

 private:
  /// The memory's rows, each with the embedding of its age, which is 0 for the previous frame. [s, frames, dim]
  ValueId read(ValueId memory, ValueId position) {
    const auto scope = b_.scope("memory.age_embedding");
    const std::int64_t frames = config_.memory_frames;
    const ValueId ages = around_the_ring(b_.add_scalar(b_.sub(position, places({frames})), -1));  // [frames]
    return b_.add(memory, read_rows(b_, params_, "weight", {frames, config_.memory_dim}, ages));
  }

  /// x[b, c, h, w] + attention of its pixels over memory[s, frames, dim] and the pixels themselves.
  ValueId attention(std::string_view name, ValueId x, ValueId memory) {
    const auto scope = b_.scope(name);
    const Shape shape = b_.shape(x);
    const std::int64_t width = shape[1];
    const ValueId pixels = layers_.to_tokens(layers_.norm("group_norm", x));  // [b, h w, c]
    const ValueId q = layers_.linear("to_q", pixels, width);
    const ValueId k = joined(layers_.linear("add_k_proj", memory, width), layers_.linear("to_k", pixels, width));
    const ValueId v = joined(layers_.linear("add_v_proj", memory, width), layers_.linear("to_v", pixels, width));
    const double scale = 1 / std::sqrt(static_cast<double>(config_.attention_head_dim));
    const ValueId seen = headroom::attention(b_, q, k, v, width / config_.attention_head_dim, scale);  // [b, h w, c]
    return b_.add(layers_.to_image(layers_.linear("to_out.0", seen, width), shape), x);
  }

  /// of_memory[s, frames, c] and of_pixels[b, h w, c] -> [b, frames + h w, c]
  ValueId joined(ValueId of_memory, ValueId of_pixels) {
    const std::int64_t batch = b_.shape(of_pixels)[0];
    const Shape memory = b_.shape(of_memory);
    if (memory[0] != batch) of_memory = b_.broadcast(of_memory, {batch, memory[1], memory[2]});
    return b_.concat({of_memory, of_pixels}, 1);
  }

  /// 0, 1, 2 and so on, i32.
  ValueId places(const Shape& shape) {
    std::vector<double> numbers(static_cast<std::size_t>(shape.numel()));
    std::iota(numbers.begin(), numbers.end(), 0);
    return b_.constant(std::move(numbers), shape, DType::kI32);
  }
  ValueId around_the_ring(ValueId place) {
    return b_.mod(place, b_.constant({static_cast<double>(config_.memory_frames)}, {}, DType::kI32));
  }

  Builder& b_;
  const LiveStreamUNetConfig& config_;
  const ParamSource& params_;
  ImageLayers layers_;
};

/// A graph of one pass, with its inputs in the given shapes.
class PassGraph {
 public:
  PassGraph(const nlohmann::json& json, const InputShapes& given, const char* name)
      : config_(parse_live_stream_unet_config(json)), given_(given), graph_(name) {}

  [[nodiscard]] const LiveStreamUNetConfig& config() const { return config_; }
  [[nodiscard]] Graph& graph() { return graph_; }

  ValueId image(const char* name) {
    const Shape& shape = require_shape(given_, name, {{"batch"}, {"", config_.out_channels}, {"height"}, {"width"}});
    if (shape[2] % config_.scale() != 0 || shape[3] % config_.scale() != 0)
      fail("'{}' is {}, expected a height and a width that are multiples of {}", name, shape, config_.scale());
    if (size_ != Shape{} && shape != size_) fail("'{}' is {}, expected {} like the other frames", name, shape, size_);
    size_ = shape;
    return graph_.add_input(name, TensorType{.shape = shape});
  }
  LiveStreamMemory memory() {
    const Shape& shape =
        require_shape(given_, "memory", {{"streams"}, {"", config_.memory_frames}, {"", config_.memory_dim}});
    static_cast<void>(require_shape(given_, "position", {}));
    return {.memory = graph_.add_input("memory", TensorType{.shape = shape}),
            .position = graph_.add_input("position", TensorType{.dtype = DType::kI32, .shape = {}})};
  }
  /// The batch size of the frames, once it is known.
  [[nodiscard]] std::int64_t batch() const { return size_[0]; }

 private:
  LiveStreamUNetConfig config_;
  const InputShapes& given_;
  Graph graph_;
  Shape size_;
};

Shape frame_shape(const LiveStreamUNetConfig& config, const PassSize& size) {
  static_cast<void>(parts_along("--height", size.height, config.scale()));
  static_cast<void>(parts_along("--width", size.width, config.scale()));
  return {size.batch, config.out_channels, size.height, size.width};
}

InputShapes step_shapes(const nlohmann::json& json, const PassSize& size) {
  const LiveStreamUNetConfig config = parse_live_stream_unet_config(json);
  const Shape frame = frame_shape(config, size);
  return {{"sample", frame},   {"frame", frame},
          {"previous", frame}, {"memory", {size.batch, config.memory_frames, config.memory_dim}},
          {"position", {}},    {"timestep", {size.batch}}};
}

InputShapes blend_shapes(const nlohmann::json& json, const PassSize& size) {
  const Shape frame = frame_shape(parse_live_stream_unet_config(json), size);
  return {{"denoised", frame}, {"frame", frame}, {"previous", frame}};
}

InputShapes remember_shapes(const nlohmann::json& json, const PassSize& size) {
  const LiveStreamUNetConfig config = parse_live_stream_unet_config(json);
  const Shape frame = frame_shape(config, size);
  const std::int64_t pixels = frame[2] * frame[3] / (config.scale() * config.scale());
  return {{"features", {size.batch, pixels, config.block_out_channels.back()}},
          {"memory", {size.batch, config.memory_frames, config.memory_dim}},
          {"position", {}}};
}

Graph build_step(const nlohmann::json& json, const InputShapes& given, const ParamSource& params) {
  PassGraph pass(json, given, "live_stream_unet_step");
  LiveStreamInputs inputs{.sample = pass.image("sample"),
                          .frame = pass.image("frame"),
                          .previous = pass.image("previous"),
                          .memory = kNoValue,
                          .position = kNoValue,
                          .timestep = kNoValue};
  const LiveStreamMemory memory = pass.memory();
  inputs.memory = memory.memory;
  inputs.position = memory.position;
  Graph& graph = pass.graph();
  if (const std::int64_t streams = graph.type(inputs.memory).shape[0]; streams != 1 && streams != pass.batch())
    fail("'memory' is of {} streams, expected 1 or {}", streams, pass.batch());
  inputs.timestep =
      graph.add_input("timestep", TensorType{.shape = require_shape(given, "timestep", {{"", pass.batch()}})});
  Builder builder(graph);
  const LiveStreamStep step = build_live_stream_step(builder, pass.config(), inputs, params);
  graph.add_output("prediction", step.prediction);
  graph.add_output("features", step.features);
  return std::move(graph);
}

Graph build_blend(const nlohmann::json& json, const InputShapes& given, const ParamSource& params) {
  PassGraph pass(json, given, "live_stream_unet_blend");
  const ValueId denoised = pass.image("denoised"), frame = pass.image("frame"), previous = pass.image("previous");
  Builder builder(pass.graph());
  pass.graph().add_output("blended",
                          build_live_stream_blend(builder, pass.config(), denoised, frame, previous, params));
  return std::move(pass.graph());
}

Graph build_remember(const nlohmann::json& json, const InputShapes& given, const ParamSource& params) {
  PassGraph pass(json, given, "live_stream_unet_remember");
  const LiveStreamMemory now = pass.memory();
  Graph& graph = pass.graph();
  const Shape& shape =
      require_shape(given, "features",
                    {{"", graph.type(now.memory).shape[0]}, {"pixels"}, {"", pass.config().block_out_channels.back()}});
  const ValueId features = graph.add_input("features", TensorType{.shape = shape});
  Builder builder(graph);
  const LiveStreamMemory next = build_live_stream_remember(builder, pass.config(), features, now, params);
  graph.add_output("next_memory", next.memory);
  graph.add_output("next_position", next.position);
  return std::move(graph);
}

std::optional<InputRange> live_stream_range(const nlohmann::json& json, std::string_view input) {
  if (input == "frame" || input == "previous" || input == "denoised") return InputRange{-1, 1};
  if (input == "timestep") return InputRange{0, 1000};
  if (input == "position") return InputRange{0, static_cast<double>(parse_live_stream_unet_config(json).memory_frames)};
  return std::nullopt;
}

bool is_time_projection(std::string_view param) { return param.ends_with(".time_emb_proj.weight"); }

PassSize live_stream_size(const nlohmann::json& json) {
  const LiveStreamUNetConfig config = parse_live_stream_unet_config(json);
  return {.height = config.sample_size[0], .width = config.sample_size[1]};
}

}  // namespace

LiveStreamStep build_live_stream_step(Builder& builder, const LiveStreamUNetConfig& config,
                                      const LiveStreamInputs& inputs, const ParamSource& params) {
  return LiveStreamUNet(builder, config, params).step(inputs);
}

ValueId build_live_stream_blend(Builder& builder, const LiveStreamUNetConfig& config, ValueId denoised, ValueId frame,
                                ValueId previous, const ParamSource& params) {
  return LiveStreamUNet(builder, config, params).blend(denoised, frame, previous);
}

LiveStreamMemory build_live_stream_remember(Builder& builder, const LiveStreamUNetConfig& config, ValueId features,
                                            const LiveStreamMemory& now, const ParamSource& params) {
  return LiveStreamUNet(builder, config, params).remember(features, now);
}

ComponentClass live_stream_unet_class() {
  return {
      .name = "LiveStreamUNet",
      .passes = {{"step", {"sample", "frame", "previous", "memory", "position", "timestep"}, step_shapes, build_step},
                 {"blend", {"denoised", "frame", "previous"}, blend_shapes, build_blend},
                 {"remember", {"features", "memory", "position"}, remember_shapes, build_remember}},
      .named = {{"live-stream-unet",
                 "frames of live video, 64x64; its checkpoint does not ship: give a folder or "
                 "--random-weights",
                 live_stream_unet_config}},
      .is_modulation = is_time_projection,
      .range = live_stream_range,
      .own_size = live_stream_size};
}

}  // namespace headroom
