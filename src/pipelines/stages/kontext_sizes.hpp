#pragma once

#include "pipelines/request.hpp"

/// The sizes that FLUX.1-Kontext works in, as diffusers' FluxKontextPipeline chooses them.
namespace headroom {

/// What an image that is edited is resized to: of the sizes that the model was trained on the one whose aspect ratio is
/// nearest; the narrowest of those that are equally near. Throws a usage Error for one of less than 16 x 16.
[[nodiscard]] ImageSize kontext_reference_size(const ImageSize& image);

/// What is made where `asked` is asked for: about `area` pixels of that aspect ratio, in multiples of `step`.
[[nodiscard]] ImageSize kontext_output_size(const ImageSize& asked, std::int64_t step,
                                            std::int64_t area = std::int64_t{1024} * 1024);

}  // namespace headroom
