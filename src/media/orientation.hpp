#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "media/image.hpp"

namespace headroom {

/// The orientation metadata of an image file, in the forms that Pillow supports.
struct PictureMetadata {
  std::string exif;  ///< a TIFF header and its data, possibly after "Exif\0\0"; may be empty
  std::string xmp;   ///< an XMP packet; may be empty
};

/// The camera orientation, 1 to 8 (Exif 2.3, 4.6.4), as in Pillow's ImageOps.exif_transpose. It is the tag
/// Orientation of `exif`, a number of any type, or else the first tiff:Orientation of `xmp`. 1 (upright) if neither
/// has one, and if `exif` is broken.
[[nodiscard]] int orientation_of(const PictureMetadata& metadata);

/// The Exif data in a text that ImageMagick writes into a PNG ("Raw profile type exif"): a name and a length, one
/// per line, and hexadecimal numbers. Empty if it is invalid.
[[nodiscard]] std::string exif_of_raw_profile(std::string_view text);

/// Undoes `orientation`, 1 to 8, by mirroring and rotating `image`. [height, width, channels] becomes [width,
/// height, channels] if it is 5 or more.
[[nodiscard]] Image upright(Image image, int orientation);

/// The same into the caller's memory, which has the size of the image.
void turn_upright(const Image& image, int orientation, std::span<std::uint8_t> to);

/// Whether this orientation exchanges width and height.
[[nodiscard]] bool swaps_axes(int orientation);

}  // namespace headroom
