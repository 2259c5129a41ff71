#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "media/image.hpp"

namespace headroom {

/// How a camera was held, as `exif` says (a TIFF header and what it leads to): the tag Orientation, 1 to 8 (Exif 2.3,
/// 4.6.4). 1, which is upright, where there is none or `exif` is broken.
[[nodiscard]] int exif_orientation(std::string_view exif);

/// `image` as it was seen: mirrored and turned back from `orientation`, 1 to 8. [height, width, channels] becomes
/// [width, height, channels] where that is 5 or more.
[[nodiscard]] Image upright(Image image, int orientation);

/// The same into memory of the caller's, as large as the image.
void turn_upright(const Image& image, int orientation, std::span<std::uint8_t> to);

/// Whether an image that was seen so has its width and height exchanged.
[[nodiscard]] bool swaps_axes(int orientation);

}  // namespace headroom
