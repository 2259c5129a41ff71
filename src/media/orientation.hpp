#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "media/image.hpp"

namespace headroom {

/// What a file says beside its pixels of how its picture was held, in the forms that Pillow heeds.
struct PictureMetadata {
  std::string exif;  ///< a TIFF header and what it leads to, perhaps behind "Exif\0\0"; empty where there is none
  std::string xmp;   ///< a packet of XMP; empty where there is none
};

/// How a camera was held, 1 to 8 (Exif 2.3, 4.6.4), as Pillow's ImageOps.exif_transpose finds it: the tag Orientation of
/// `exif`, a number of whatever type, or else the first tiff:Orientation of `xmp`. 1, which is upright, where neither says
/// anything, and where `exif` is broken.
[[nodiscard]] int orientation_of(const PictureMetadata& metadata);

/// The Exif in a text as ImageMagick writes it into a PNG ("Raw profile type exif"): a name and a length, each in a line, and
/// hexadecimal numbers. Empty where it is none.
[[nodiscard]] std::string exif_of_raw_profile(std::string_view text);

/// `image` as it was seen: mirrored and turned back from `orientation`, 1 to 8. [height, width, channels] becomes
/// [width, height, channels] where that is 5 or more.
[[nodiscard]] Image upright(Image image, int orientation);

/// The same into memory of the caller's, as large as the image.
void turn_upright(const Image& image, int orientation, std::span<std::uint8_t> to);

/// Whether an image that was seen so has its width and height exchanged.
[[nodiscard]] bool swaps_axes(int orientation);

}  // namespace headroom
