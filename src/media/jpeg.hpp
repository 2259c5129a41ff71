#pragma once

#include <cstdint>
#include <string_view>

#include "media/image.hpp"
#include "media/orientation.hpp"

namespace headroom {

/// The content of a JPEG.
struct JpegContents {
  Image image;               ///< RGB, before its orientation is applied
  PictureMetadata metadata;  ///< from the APP1 segments before the pixels: all Exif segments together, and the last XMP
};

/// Parses a JPEG: baseline or progressive, gray or colour. Throws Error, one sentence with `name`, for broken bytes,
/// missing pixels, CMYK, and a header that states more than `most_pixels`. Tolerates the same faults as Pillow: stray
/// bytes, and a missing end marker.
[[nodiscard]] JpegContents parse_jpeg(std::string_view file, std::string_view name,
                                      std::uint64_t most_pixels = kMostPixels);

}  // namespace headroom
