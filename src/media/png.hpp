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

/// What a PNG says of itself, by keyword ("prompt"): text in UTF-8. A keyword is 1 to 79 printable characters of ASCII
/// without spaces around it.
using PngText = std::map<std::string, std::string, std::less<>>;

/// Writes a PNG atomically; equal arguments give equal bytes. A text goes into a chunk tEXt where Latin-1 has all its
/// characters, and else into iTXt, as Pillow's PngInfo.add_text does. Throws Error where the file cannot be written or
/// a text is not UTF-8 or holds a NUL, and std::logic_error where check_image() does or a keyword is none.
void write_png(const std::filesystem::path& path, const Image& image, const PngText& text = {});

/// The texts of a PNG (tEXt, zTXt, iTXt), the last one where a keyword is repeated. Throws Error where the file is
/// missing, no PNG or broken, or a text is not UTF-8.
[[nodiscard]] PngText read_png_text(const std::filesystem::path& path);

/// The picture in a PNG.
struct PngContents {
  Image image;               ///< RGB, as decode_image() says, before it is turned upright
  PictureMetadata metadata;  ///< of the last chunk eXIf, or else of a raw profile, and of XMP in a text
};

/// Takes the bytes of a PNG apart. Throws Error, one sentence with `name`, where they are broken, are cut off, or say
/// that there are more than `most_pixels`.
[[nodiscard]] PngContents parse_png(std::string_view file, std::string_view name,
                                    std::uint64_t most_pixels = kMostPixels);

}  // namespace headroom
