#pragma once

#include <cstdint>
#include <span>

#include "ir/builder.hpp"
#include "models/unets/live_stream_unet.hpp"
#include "pipelines/schedules/sampler_formulas.hpp"
#include "run/session/session.hpp"

namespace headroom {

/// A frame of a live stream, from the camera's image to the shown image, as one graph: a loop of denoiser calls along
/// the sampler's steps, the blend with the previous frame, and the update of the states.
///
/// Inputs, f32: `frame` [batch, channels, h, w] in [-1, 1], whose shape is `shape`; `noise` of that shape, from which
/// each frame starts; `timesteps` [calls, batch]; and the sampler's inputs.
/// States: the sampler's, which each frame resets; `previous` [batch, channels, h, w]; `memory`; and `position`.
/// Output: `shown`, of the frame's shape.
[[nodiscard]] Graph build_live_stream_frame(const LiveStreamUNetConfig& config, const Shape& shape,
                                            const SamplerTables& sampler, const ParamSource& params);

/// The same within a graph: adds all inputs but `frame`, and no output. Returns the image to show for `frame`.
[[nodiscard]] ValueId build_live_stream_image(Builder& builder, const LiveStreamUNetConfig& config, ValueId frame,
                                              const SamplerTables& sampler, const ParamSource& params);

/// Sets the inputs that are the same for all frames.
void set_live_stream_inputs(Session& session, const SamplerTables& sampler, const HostTensor& noise);
/// Starts a stream at `first`, the first frame of the camera, by setting the states. `seeds`, one for each image,
/// apply to a sampler that adds noise.
void start_live_stream(Session& session, const HostTensor& first, std::span<const std::uint64_t> seeds);

}  // namespace headroom
