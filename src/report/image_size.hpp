#pragma once

#include <optional>
#include <string>

#include "measure/results/result.hpp"
#include "pipelines/request.hpp"

namespace headroom {

/// Size in pixels of the images that a work makes: its width and height, or its rows and columns of image tokens where the subject says
/// how many pixels wide one is. Nothing where neither is known; of "image_tokens" alone only the area is (pixels_of()).
[[nodiscard]] std::optional<ImageSize> image_size_of(const Subject& subject);
/// Pixels of one image; nothing where no size is known.
[[nodiscard]] std::optional<double> pixels_of(const Subject& subject);
/// "512x768" (width by height), or "393216 pixels" where only the area is known.
[[nodiscard]] std::string size_name(const Subject& subject);

}  // namespace headroom
