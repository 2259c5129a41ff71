#include "media/orientation.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/error.hpp"

namespace headroom {
namespace {

/// The numbers of a TIFF file, 0 beyond its end.
class TiffBytes {
 public:
  explicit TiffBytes(std::string_view bytes) : bytes_(bytes), is_big_endian_(bytes.starts_with("MM")) {}

  [[nodiscard]] std::uint32_t u16(std::uint64_t at) const { return number(at, 2); }
  [[nodiscard]] std::uint32_t u32(std::uint64_t at) const { return number(at, 4); }

 private:
  [[nodiscard]] std::uint32_t number(std::uint64_t at, unsigned size) const {
    if (bytes_.size() < size || at > bytes_.size() - size) return 0;
    std::uint32_t value = 0;
    for (unsigned i = 0; i < size; ++i) {
      const std::uint64_t byte = at + (is_big_endian_ ? i : size - 1 - i);
      value = value << 8U | static_cast<unsigned char>(bytes_[byte]);
    }
    return value;
  }

  std::string_view bytes_;
  bool is_big_endian_;
};

/// The pixel of an image [height, width] that is seen at (x, y) of it upright.
struct Turn {
  bool swaps_axes;
  bool mirrors_x;  // of the image as it lies in the file
  bool mirrors_y;
};
Turn turn_of(int orientation) {
  switch (orientation) {
    case 2:
      return {false, true, false};
    case 3:
      return {false, true, true};
    case 4:
      return {false, false, true};
    case 5:
      return {true, false, false};
    case 6:
      return {true, false, true};
    case 7:
      return {true, true, true};
    case 8:
      return {true, true, false};
    default:
      return {false, false, false};
  }
}

}  // namespace

int exif_orientation(std::string_view exif) {
  constexpr std::uint32_t kTiff = 42;
  constexpr std::uint32_t kOrientation = 0x0112;
  constexpr std::uint32_t kShort = 3;
  constexpr std::uint64_t kEntryBytes = 12;
  if (!exif.starts_with("II") && !exif.starts_with("MM")) return 1;
  const TiffBytes tiff(exif);
  if (tiff.u16(2) != kTiff) return 1;
  const std::uint64_t directory = tiff.u32(4);
  const std::uint32_t count = tiff.u16(directory);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t entry = directory + 2 + i * kEntryBytes;
    if (tiff.u16(entry) != kOrientation || tiff.u16(entry + 2) != kShort || tiff.u32(entry + 4) != 1) continue;
    const auto value = static_cast<int>(tiff.u16(entry + 8));
    return value >= 1 && value <= 8 ? value : 1;
  }
  return 1;
}

bool swaps_axes(int orientation) { return turn_of(orientation).swaps_axes; }

void turn_upright(const Image& image, int orientation, std::span<std::uint8_t> to) {
  HR_CHECK(orientation >= 1 && orientation <= 8);
  HR_CHECK_EQ(to.size(), image.pixels.size());
  const Turn turn = turn_of(orientation);
  const int width = turn.swaps_axes ? image.height : image.width;
  const int height = turn.swaps_axes ? image.width : image.height;
  const auto channels = static_cast<std::size_t>(image.channels);
  std::uint8_t* pixel = to.data();
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x, pixel += channels) {
      const auto [across, down] = turn.swaps_axes ? std::pair(y, x) : std::pair(x, y);
      const int from_x = turn.mirrors_x ? image.width - 1 - across : across;
      const int from_y = turn.mirrors_y ? image.height - 1 - down : down;
      std::copy_n(image.row(from_y) + static_cast<std::size_t>(from_x) * channels, channels, pixel);
    }
}

Image upright(Image image, int orientation) {
  HR_CHECK(orientation >= 1 && orientation <= 8);
  if (orientation == 1) return image;
  const bool swaps = swaps_axes(orientation);
  Image turned = make_image(swaps ? image.height : image.width, swaps ? image.width : image.height, image.channels);
  turn_upright(image, orientation, turned.pixels);
  return turned;
}

}  // namespace headroom
