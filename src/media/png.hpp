#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "media/image.hpp"
#include "media/orientation.hpp"

namespace headroom {

/// The texts of a PNG by keyword ("prompt"), in UTF-8. A keyword is 1 to 79 printable ASCII characters without
/// surrounding spaces.
using PngText = std::map<std::string, std::string, std::less<>>;

/// The bytes of a PNG; equal arguments give equal bytes. A text is stored in a tEXt chunk if Latin-1 has all its
/// characters, else in iTXt, as in Pillow's PngInfo.add_text. Throws Error, with `name`, if a text is not UTF-8 or
/// contains a NUL. Throws std::logic_error as check_image() does, and for an invalid keyword.
[[nodiscard]] std::string encode_png(const Image& image, const PngText& text = {}, std::string_view name = "a PNG");
/// Writes it atomically. Throws Error also if the file cannot be written.
void write_png(const std::filesystem::path& path, const Image& image, const PngText& text = {});

/// The texts of a PNG (tEXt, zTXt, iTXt), the last one of a repeated keyword. Throws Error if the file is missing,
/// not a PNG or broken, or if a text is not UTF-8.
[[nodiscard]] PngText read_png_text(const std::filesystem::path& path);

/// The content of a PNG.
struct PngContents {
  Image image;               ///< RGB, as described at decode_image(), before its orientation is applied
  PictureMetadata metadata;  ///< of the last eXIf chunk, or else of a raw profile, and XMP from a text
};

/// Parses a PNG. Throws Error, one sentence with `name`, if the bytes are broken or truncated, or if the header
/// states more than `most_pixels`.
[[nodiscard]] PngContents parse_png(std::string_view file, std::string_view name,
                                    std::uint64_t most_pixels = kMostPixels);

}  // namespace headroom
