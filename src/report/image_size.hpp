#pragma once

#include <optional>

#include "measure/results/result.hpp"
#include "pipelines/request.hpp"

namespace headroom {

/// Size in pixels of the images of a work: its width and height. Otherwise it is rows and columns of image tokens
/// times the pixels of a token, if the subject gives these. Empty if neither is known; "image_tokens" alone gives
/// only the area (pixels_of()).
[[nodiscard]] std::optional<ImageSize> image_size_of(const Subject& subject);
/// Pixels of one image; empty if no size is known.
[[nodiscard]] std::optional<double> pixels_of(const Subject& subject);

}  // namespace headroom
