#pragma once

#include <span>

#include "media/image.hpp"

namespace headroom {

/// Images of equal size and channels, `columns` to a row, with `padding` white pixels between and around them.
/// Throws std::logic_error where they are not equal, there are none, or columns < 1.
[[nodiscard]] Image image_grid(std::span<const Image> images, int columns, int padding);

}  // namespace headroom
