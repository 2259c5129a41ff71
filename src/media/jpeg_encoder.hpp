#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace headroom {

/// A baseline JPEG in YCbCr without chroma subsampling (4:4:4), by libjpeg-turbo. `rgb` is [height, width, 3], top
/// row first; `quality` is libjpeg's, 1 to 100. Throws Error if libjpeg fails (an extent of more than 65500 pixels,
/// no memory).
[[nodiscard]] std::string encode_jpeg(std::span<const std::uint8_t> rgb, int width, int height, int quality);

}  // namespace headroom
