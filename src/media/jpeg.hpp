#pragma once

#include <cstdint>
#include <string_view>

#include "media/image.hpp"
#include "media/orientation.hpp"

namespace headroom {

/// The picture in a JPEG.
struct JpegContents {
  Image image;               ///< RGB, before it is turned upright
  PictureMetadata metadata;  ///< of the segments APP1 before the pixels: all of Exif together, and the last of XMP
};

/// Takes the bytes of a JPEG apart, baseline or progressive, gray or colour. Throws Error, one sentence with `name`,
/// where they are broken or lack pixels, are in CMYK, or say that there are more than `most_pixels`. What Pillow
/// overlooks is overlooked: stray bytes, and a last marker that is missing.
[[nodiscard]] JpegContents parse_jpeg(std::string_view file, std::string_view name,
                                      std::uint64_t most_pixels = kMostPixels);

}  // namespace headroom
