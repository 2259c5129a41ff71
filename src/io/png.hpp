#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace headroom {

/// An 8-bit image in row-major order, top row first, channels interleaved: pixels are [height, width, channels].
struct Image {
  int width = 0;
  int height = 0;
  int channels = 0;  ///< 1 (gray) or 3 (RGB, sRGB-encoded)
  std::vector<std::uint8_t> pixels;

  friend bool operator==(const Image&, const Image&) = default;
};

/// Writes a PNG atomically; equal images give equal bytes. Throws Error where the file cannot be written, and
/// std::logic_error where `pixels` does not have the size that the other fields say.
void write_png(const std::filesystem::path& path, const Image& image);

/// Reads a PNG of any kind as gray (where it has no colour) or RGB, 8 bits a channel, transparency on black.
/// Throws Error where the file is not a PNG or is broken.
[[nodiscard]] Image read_png(const std::filesystem::path& path);

/// Images of equal size and channels, `columns` to a row, with `padding` white pixels between and around them.
/// Throws std::logic_error where they are not equal, there are none, or columns < 1.
[[nodiscard]] Image image_grid(std::span<const Image> images, int columns, int padding);

}  // namespace headroom
