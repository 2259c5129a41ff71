#pragma once

#include <memory>

#include "pipelines/diffusion_pipeline.hpp"
#include "pipelines/streams/stream_model.hpp"

namespace headroom {

/// Frames through a pipeline whose loop may begin with an image: each is encoded, given the noise of a level by the strength, denoised in
/// as many calls as there are steps, and decoded. Throws a usage Error for a pipeline that does not begin with images.
[[nodiscard]] std::unique_ptr<StreamModel> make_diffusion_stream(const DiffusionPipeline& pipeline);

}  // namespace headroom
