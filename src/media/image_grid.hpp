#pragma once

#include <span>

#include "media/image.hpp"

namespace headroom {

/// A grid of images of equal size and channels, `columns` per row, with `padding` white pixels between and around
/// them. Throws std::logic_error if they are not equal, if there are none, or if columns < 1.
[[nodiscard]] Image image_grid(std::span<const Image> images, int columns, int padding);

}  // namespace headroom
