#pragma once

#include "pipelines/request.hpp"

/// The image sizes of FLUX.1-Kontext, as diffusers' FluxKontextPipeline chooses them.
namespace headroom {

/// The size to which a reference image is resized: of the sizes used in training, the one with the nearest aspect
/// ratio; of several equally near, the least wide. Throws a usage Error for images below 16 x 16.
[[nodiscard]] ImageSize kontext_reference_size(const ImageSize& image);

/// The output size for a requested size: about `area` pixels of that aspect ratio, in multiples of `step`.
[[nodiscard]] ImageSize kontext_output_size(const ImageSize& asked, std::int64_t step,
                                            std::int64_t area = std::int64_t{1024} * 1024);

}  // namespace headroom
