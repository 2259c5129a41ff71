#pragma once

#include "media/image.hpp"

namespace headroom {

/// Resizes `image` to [height, width, channels] with a Lanczos filter of three lobes, scaled to the coarser pixel
/// grid to avoid aliasing. The bytes are those of Pillow's Image.resize(..., LANCZOS): weights have 22 fractional
/// bits, rows are filtered first, and columns use the rounded rows. Throws std::logic_error as check_image() does,
/// and if an extent is less than 1.
[[nodiscard]] Image resize_lanczos(const Image& image, int width, int height);

}  // namespace headroom
