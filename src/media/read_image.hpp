#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "media/image.hpp"

namespace headroom {

/// Reads an image, PNG or JPEG (recognized by content): RGB, upright. The bytes are those of diffusers' load_image,
/// which are those of Pillow's ImageOps.exif_transpose and convert("RGB"). Gray is copied to all three channels, and
/// palettes are looked up. Transparency, gamma and colour profiles are ignored. The upper 8 of 16 bits are kept, but
/// 16-bit gray is clipped at 255. The orientation comes from Exif (in a PNG also from ImageMagick's raw profile), or
/// else from XMP.
/// Throws Error, one sentence with the path, if the file is missing, a folder, no image, broken or truncated. Also if
/// it has more than kMostPixels; nothing is allocated then.
[[nodiscard]] Image read_image(const std::filesystem::path& path);

/// The same for the bytes of a file; `name` replaces the path in an Error.
[[nodiscard]] Image decode_image(std::string_view file, std::string_view name, std::uint64_t most_pixels = kMostPixels);

}  // namespace headroom
