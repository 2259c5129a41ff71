#pragma once

#include <memory>

#include "pipelines/parts_source.hpp"
#include "pipelines/pipeline.hpp"

namespace headroom {

/// FLUX.2 [klein] from the parts of a folder. Throws Error if a part is missing or broken, or does not fit the others.
[[nodiscard]] std::unique_ptr<Pipeline> open_flux2_pipeline(const PartsSource& source);
/// Its transformer alone, which makes latents of random prompts.
[[nodiscard]] std::unique_ptr<Pipeline> make_flux2_pipeline(Component transformer);

}  // namespace headroom
