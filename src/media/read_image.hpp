#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "media/image.hpp"

namespace headroom {

/// Reads a picture, PNG or JPEG, told apart by content: RGB, upright. The bytes are those that diffusers' load_image
/// gives, which is Pillow's ImageOps.exif_transpose and convert("RGB"): gray on all three channels, palettes looked up,
/// transparency dropped, the upper 8 of 16 bits kept (but 16-bit gray clipped at 255), gamma and colour profiles left
/// aside. Exif turns a picture (in a PNG also as ImageMagick's raw profile), or else XMP.
/// Throws Error, one sentence with the path, where the file is missing, a folder, no picture, broken, cut off, or of
/// more than kMostPixels, which nothing is allocated for.
[[nodiscard]] Image read_image(const std::filesystem::path& path);

/// The same of a file's bytes; `name` stands for it in an Error.
[[nodiscard]] Image decode_image(std::string_view file, std::string_view name, std::uint64_t most_pixels = kMostPixels);

}  // namespace headroom
