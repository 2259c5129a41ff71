#pragma once

#include <cstdint>
#include <span>

#include "ir/builder.hpp"
#include "models/unets/live_stream_unet.hpp"
#include "pipelines/schedules/sampler_tables.hpp"
#include "run/session/session.hpp"

namespace headroom {

/// A frame of a live stream, from what the camera sees to what is shown, as one graph: a loop of calls of the denoiser along the
/// sampler's steps, the blend with the frame before, and what is remembered.
///
/// Inputs, f32: `frame` [batch, channels, h, w] in [-1, 1], which is `shape`; `noise` of that shape, from which each frame begins; `timesteps`
/// [calls, batch]; and the sampler's. States: what the sampler keeps, which each frame begins anew, `previous` [batch, channels, h, w],
/// `memory` and `position`. Output: `shown`, of the frame's shape.
[[nodiscard]] Graph build_live_stream_frame(const LiveStreamUNetConfig& config, const Shape& shape,
                                            const SamplerTables& sampler, const ParamSource& params);

/// The same within a graph, which gets all but the input `frame` and the output: what is shown of `frame`.
[[nodiscard]] ValueId build_live_stream_image(Builder& builder, const LiveStreamUNetConfig& config, ValueId frame,
                                              const SamplerTables& sampler, const ParamSource& params);

/// Sets the inputs that are the same for all frames.
void set_live_stream_inputs(Session& session, const SamplerTables& sampler, const HostTensor& noise);
/// Begins a stream at `first`, the first frame that the camera sees: sets the states. `seeds` are those of a sampler that adds noise,
/// one for each image.
void start_live_stream(Session& session, const HostTensor& first, std::span<const std::uint64_t> seeds);

}  // namespace headroom
