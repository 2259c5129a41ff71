#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "models/component.hpp"
#include "models/unets/unet.hpp"

namespace headroom {

/// The configuration of a `LiveStreamUNet`, under the names of its config.json. A frame has `out_channels`. The
/// network sees three frames, which make its `in_channels`.
struct LiveStreamUNetConfig : UNetConfig {
  std::int64_t attention_head_dim = 64;  ///< of one head
  std::int64_t memory_frames = 32;       ///< frames in memory
  std::int64_t memory_dim = 512;         ///< numbers per frame in memory

  /// Pixels of the frame per pixel of the lowest resolution, along one side.
  [[nodiscard]] std::int64_t scale() const { return std::int64_t{1} << (levels() - 1); }
};

/// Reads config.json. Throws Error that names the key and the value if it is no such configuration.
[[nodiscard]] LiveStreamUNetConfig parse_live_stream_unet_config(const nlohmann::json& config);
/// The large configuration: 882 million parameters, made for 64x64 frames. docs/live_stream_unet.md explains the
/// design.
[[nodiscard]] nlohmann::json live_stream_unet_config();

/// The inputs of one denoiser call. Frames are [batch, out_channels, h, w] in [-1, 1].
struct LiveStreamInputs {
  ValueId sample;    ///< the noisy frame to denoise
  ValueId frame;     ///< the camera frame
  ValueId previous;  ///< the previously shown frame; at the beginning the camera frame
  /// [streams, memory_frames, memory_dim], a ring buffer: zeros where it is empty; streams is batch or 1
  ValueId memory;
  ValueId position;  ///< [] i32: the position in the ring buffer that is written next
  ValueId timestep;  ///< [batch], in training steps, of which there are 1000
};

struct LiveStreamStep {
  ValueId prediction;  ///< [batch, out_channels, h, w]: v = alpha noise - sigma frame
  /// [batch, h/scale w/scale, block_out_channels.back()], from which the frame's memory entry is made
  ValueId features;
};

/// One denoiser call: the U-Net of diffusers' UNet2DModel, with time as scale and shift. Its attention also reads the
/// memory, whose keys and values are concatenated with those of the pixels. It predicts v (Salimans and Ho,
/// "Progressive Distillation", 2022), from which a frame follows at any noise level, so that one step is enough.
[[nodiscard]] LiveStreamStep build_live_stream_step(Builder& builder, const LiveStreamUNetConfig& config,
                                                    const LiveStreamInputs& inputs, const ParamSource& params);
/// The frame to show, given the `denoised` one: previous + w (denoised - previous), clamped to [-1, 1], with one w in
/// (0, 1) per pixel. It avoids flicker in static areas.
[[nodiscard]] ValueId build_live_stream_blend(Builder& builder, const LiveStreamUNetConfig& config, ValueId denoised,
                                              ValueId frame, ValueId previous, const ParamSource& params);

struct LiveStreamMemory {
  ValueId memory, position;
};
/// The memory after writing a frame with these features, [streams, ...], at the ring buffer's next position, and the
/// position after it. Entries are never moved: the age of a row follows from its position.
[[nodiscard]] LiveStreamMemory build_live_stream_remember(Builder& builder, const LiveStreamUNetConfig& config,
                                                          ValueId features, const LiveStreamMemory& now,
                                                          const ParamSource& params);

/// Its passes: `step` is one denoiser call; `blend` and `remember` complete a frame.
[[nodiscard]] ComponentClass live_stream_unet_class();

}  // namespace headroom
