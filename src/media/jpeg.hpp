#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "media/image.hpp"

namespace headroom {

/// The picture in a JPEG.
struct JpegContents {
  Image image;       ///< RGB, before it is turned upright
  std::string exif;  ///< of the first segment APP1 that is Exif: a TIFF header and what it leads to; perhaps empty
};

/// Takes the bytes of a JPEG apart, baseline or progressive, gray or colour. Throws Error, one sentence with `name`,
/// where they are broken or lack pixels, are in CMYK, or say that there are more than `most_pixels`. What Pillow
/// overlooks is overlooked: stray bytes, and a last marker that is missing.
[[nodiscard]] JpegContents parse_jpeg(std::string_view file, std::string_view name,
                                      std::uint64_t most_pixels = kMostPixels);

}  // namespace headroom
