#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pipelines/pipeline.hpp"
#include "run/forward_pass.hpp"

/// The stages of a pipeline besides its loop, each as a pass by itself.
namespace headroom {

/// Those that run on the device: "text_encoder", "encode", "decode"; none where the denoiser is alone.
[[nodiscard]] std::vector<std::string> stage_passes(const Pipeline& pipeline);
/// What a request runs of one of them at once, over random data: one prompt, or one image. Where the request edits
/// none, an image that is edited is as large as the one that is made. The pipeline must outlive it.
[[nodiscard]] ForwardPass stage_pass(const Pipeline& pipeline, std::string_view stage, const Request& request);

}  // namespace headroom
