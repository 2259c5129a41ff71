#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace headroom {

/// An 8-bit image in row-major order, top row first, channels interleaved: pixels are [height, width, channels].
struct Image {
  int width = 0;
  int height = 0;
  int channels = 0;  ///< 1 (gray) or 3 (RGB, sRGB-encoded)
  std::vector<std::uint8_t> pixels;

  [[nodiscard]] std::size_t row_bytes() const {
    return static_cast<std::size_t>(width) * static_cast<std::size_t>(channels);
  }
  [[nodiscard]] const std::uint8_t* row(int y) const {
    return pixels.data() + static_cast<std::size_t>(y) * row_bytes();
  }
  [[nodiscard]] std::uint8_t* row(int y) { return pixels.data() + static_cast<std::size_t>(y) * row_bytes(); }

  friend bool operator==(const Image&, const Image&) = default;
};

/// An image of zeros. Throws std::logic_error if an extent is less than 1 or channels are neither 1 nor 3.
[[nodiscard]] Image make_image(int width, int height, int channels);

/// Throws std::logic_error if the size of `pixels` does not match the other fields, or if these are invalid as
/// above.
void check_image(const Image& image);

/// The maximum number of pixels of a file: the limit above which Pillow reports a decompression bomb.
inline constexpr std::uint64_t kMostPixels = 178'956'970;

/// Throws Error with the name of the file if its header states more than `most` pixels.
void check_pixel_count(std::string_view file_name, std::uint64_t width, std::uint64_t height, std::uint64_t most);

}  // namespace headroom
