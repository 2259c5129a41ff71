#pragma once

#include "media/image.hpp"

namespace headroom {

/// `image` in another size, [height, width, channels], by Lanczos' windowed sinc of three lobes, as wide as the larger
/// of both images' pixels so that nothing aliases. The bytes are those of Pillow's Image.resize(..., LANCZOS): weights
/// of 22 fractional bits, rows first, columns of what that was rounded to. Throws std::logic_error where check_image()
/// does or an extent is less than 1.
[[nodiscard]] Image resize_lanczos(const Image& image, int width, int height);

}  // namespace headroom
