#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "models/component.hpp"
#include "models/unets/unet.hpp"

namespace headroom {

/// The configuration of a `LiveStreamUNet`, under the names of its config.json. A frame has `out_channels`; three of them are what the
/// network looks at, `in_channels`.
struct LiveStreamUNetConfig : UNetConfig {
  std::int64_t attention_head_dim = 64;  ///< of one head
  std::int64_t memory_frames = 32;       ///< frames that it remembers
  std::int64_t memory_dim = 512;         ///< numbers that it remembers of each

  /// Pixels along a side of one at the lowest resolution.
  [[nodiscard]] std::int64_t scale() const { return std::int64_t{1} << (levels() - 1); }
};

/// Reads config.json. Throws Error that names the key and the value where it is none.
[[nodiscard]] LiveStreamUNetConfig parse_live_stream_unet_config(const nlohmann::json& config);
/// The large one: 882 million parameters, made for 64x64 frames. docs/live_stream_unet.md says why it is as it is.
[[nodiscard]] nlohmann::json live_stream_unet_config();

/// What a call of the denoiser is given. Frames are [batch, out_channels, h, w] in [-1, 1].
struct LiveStreamInputs {
  ValueId sample;    ///< the frame to be, with noise
  ValueId frame;     ///< what the camera sees
  ValueId previous;  ///< what was shown before; at the beginning what the camera sees
  ValueId memory;    ///< [streams, memory_frames, memory_dim], a ring: zeros where it is empty; streams are batch or 1
  ValueId position;  ///< [] i32: the ring's place that is written next
  ValueId timestep;  ///< [batch], in steps of training, of which there are 1000
};

struct LiveStreamStep {
  ValueId prediction;  ///< [batch, out_channels, h, w]: v = alpha noise - sigma frame
  ValueId features;    ///< [batch, h/scale w/scale, block_out_channels.back()], to remember the frame by
};

/// One call: the U-Net of diffusers' UNet2DModel, with the time as scale and shift, whose attention also reads the memory: its keys and values
/// stand beside those of the pixels. It predicts v (Salimans and Ho, "Progressive Distillation", 2022), from which a frame follows at any
/// level of noise, so that one step is enough.
[[nodiscard]] LiveStreamStep build_live_stream_step(Builder& builder, const LiveStreamUNetConfig& config,
                                                    const LiveStreamInputs& inputs, const ParamSource& params);
/// What is shown of a frame that is `denoised`: previous + w (denoised - previous) within [-1, 1], with a w in (0, 1) for
/// each pixel, so that what stands still does not flicker.
[[nodiscard]] ValueId build_live_stream_blend(Builder& builder, const LiveStreamUNetConfig& config, ValueId denoised,
                                              ValueId frame, ValueId previous, const ParamSource& params);

struct LiveStreamMemory {
  ValueId memory, position;
};
/// The memory with a frame of these features, [streams, ...], in the ring's next place, and the place after that. Nothing
/// shifts: how old a row is follows from its place.
[[nodiscard]] LiveStreamMemory build_live_stream_remember(Builder& builder, const LiveStreamUNetConfig& config,
                                                          ValueId features, const LiveStreamMemory& now,
                                                          const ParamSource& params);

/// Its passes: `step` is a call of the denoiser, `blend` and `remember` end a frame.
[[nodiscard]] ComponentClass live_stream_unet_class();

}  // namespace headroom
