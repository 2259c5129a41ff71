#pragma once

#include <cstdint>
#include <span>

#include "models/live_stream_unet.hpp"
#include "pipelines/sampler_tables.hpp"
#include "run/session.hpp"

namespace headroom {

/// A frame of a live stream, from what the camera sees to what is shown, as one graph: a loop of calls of the denoiser along the
/// sampler's steps, the blend with the frame before, and what is remembered.
///
/// Inputs, f32: `frame` [batch, channels, h, w] in [-1, 1], which is `shape`; `noise` of that shape, from which each frame begins; `timesteps`
/// [calls, batch]; and the sampler's. States: what the sampler keeps, which each frame begins anew, `previous` [batch, channels, h, w],
/// `memory` and `position`. Output: `shown`, of the frame's shape.
[[nodiscard]] Graph build_live_stream_frame(const LiveStreamUNetConfig& config, const Shape& shape,
                                            const SamplerTables& sampler, const ParamSource& params);

/// Begins a stream at `first`, the first frame that the camera sees: sets the states, and the inputs that are the same for
/// all frames. `seeds` are those of a sampler that adds noise, one for each image.
void start_live_stream(Session& session, const SamplerTables& sampler, const HostTensor& first, const HostTensor& noise,
                       std::span<const std::uint64_t> seeds);

}  // namespace headroom
