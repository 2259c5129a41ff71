#pragma once

#include <memory>

#include "pipelines/diffusion_pipeline.hpp"
#include "pipelines/streams/stream_model.hpp"

namespace headroom {

/// A stream through a pipeline whose loop may start from an image. Each frame is encoded, noised to a level given by
/// the strength, denoised in as many calls as there are steps, and decoded. Throws a usage Error for a pipeline that
/// does not start from images.
[[nodiscard]] std::unique_ptr<StreamModel> make_diffusion_stream(const DiffusionPipeline& pipeline);

}  // namespace headroom
