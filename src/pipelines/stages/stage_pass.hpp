#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pipelines/pipeline.hpp"
#include "run/forward_pass.hpp"

/// The stages of a pipeline other than its loop, each as a separate pass.
namespace headroom {

/// The stages that run on the device: "text_encoder", "encode", "decode"; none for a denoiser alone.
[[nodiscard]] std::vector<std::string> stage_passes(const Pipeline& pipeline);
/// One run of such a stage as a request makes it, over random data: one prompt, or one image. If the request edits no
/// image, the reference image has the output's size. The pipeline must outlive it.
[[nodiscard]] ForwardPass stage_pass(const Pipeline& pipeline, std::string_view stage, const Request& request);

}  // namespace headroom
