#include "media/orientation.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/error.hpp"

namespace headroom {
namespace {

/// Reads the numbers of a TIFF file.
class TiffBytes {
 public:
  explicit TiffBytes(std::string_view bytes) : bytes_(bytes), is_big_endian_(bytes.starts_with("MM")) {}

  [[nodiscard]] bool has(std::uint64_t at, std::uint64_t size) const {
    return size <= bytes_.size() && at <= bytes_.size() - size;
  }
  /// A number of `size` bytes, which must be within the file.
  [[nodiscard]] std::uint64_t number(std::uint64_t at, std::uint64_t size) const {
    std::uint64_t value = 0;
    for (std::uint64_t i = 0; i < size; ++i) {
      const std::uint64_t byte = at + (is_big_endian_ ? i : size - 1 - i);
      value = value << 8U | static_cast<unsigned char>(bytes_[byte]);
    }
    return value;
  }

 private:
  std::string_view bytes_;
  bool is_big_endian_;
};

/// Types of a tag's values (TIFF 6.0, section 2; Exif 3.0 for the last ones).
enum class TiffType : std::uint8_t {
  kByte = 1,
  kAscii = 2,
  kShort = 3,
  kLong = 4,
  kRational = 5,
  kSignedByte = 6,
  kUndefined = 7,
  kSignedShort = 8,
  kSignedLong = 9,
  kSignedRational = 10,
  kFloat = 11,
  kDouble = 12,
  kIfd = 13,
  kLong8 = 16,
};

/// Bytes of a value; 0 for an unknown type.
std::uint64_t size_of(TiffType type) {
  switch (type) {
    case TiffType::kByte:
    case TiffType::kAscii:
    case TiffType::kSignedByte:
    case TiffType::kUndefined:
      return 1;
    case TiffType::kShort:
    case TiffType::kSignedShort:
      return 2;
    case TiffType::kLong:
    case TiffType::kSignedLong:
    case TiffType::kFloat:
    case TiffType::kIfd:
      return 4;
    case TiffType::kRational:
    case TiffType::kSignedRational:
    case TiffType::kDouble:
    case TiffType::kLong8:
      return 8;
  }
  return 0;
}

/// The value of `bits` for numeric types; 0 for bytes and texts. Negative numbers are read as unsigned, which makes
/// them too large for an orientation.
double value_of(TiffType type, std::uint64_t bits, std::uint64_t denominator) {
  switch (type) {
    case TiffType::kFloat:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    case TiffType::kDouble:
      return std::bit_cast<double>(bits);
    case TiffType::kRational:
    case TiffType::kSignedRational:
      return denominator == 0 ? 0 : static_cast<double>(bits) / static_cast<double>(denominator);
    case TiffType::kByte:
    case TiffType::kAscii:
    case TiffType::kUndefined:
      return 0;
    default:
      return static_cast<double>(bits);
  }
}

/// The value of Orientation of a directory entry; empty if it is outside the file.
std::optional<double> orientation_at(const TiffBytes& tiff, std::uint64_t entry) {
  const auto type = static_cast<TiffType>(std::min<std::uint64_t>(tiff.number(entry + 2, 2), 255));
  const std::uint64_t unit = size_of(type);
  const std::uint64_t size = unit * tiff.number(entry + 4, 4);  // of all values; only the first is used
  const std::uint64_t at = size > 4 ? tiff.number(entry + 8, 4) : entry + 8;
  if (size == 0 || !tiff.has(at, size)) return std::nullopt;
  if (type == TiffType::kRational || type == TiffType::kSignedRational)
    return value_of(type, tiff.number(at, 4), tiff.number(at + 4, 4));
  return value_of(type, tiff.number(at, unit), 1);
}

/// 1 for an invalid orientation.
int checked(double value) {
  for (int orientation = 2; orientation <= 8; ++orientation)
    if (value == orientation) return orientation;
  return 1;
}

/// Empty if there is no Exif, or if it has no orientation.
std::optional<int> orientation_of_exif(std::string_view exif) {
  constexpr std::uint64_t kOrientation = 0x0112;
  constexpr std::uint64_t kEntryBytes = 12;
  constexpr std::string_view kName("Exif\0\0", 6);
  for (int i = 0; i < 2 && exif.starts_with(kName); ++i) exif.remove_prefix(kName.size());
  if (exif.empty()) return std::nullopt;
  const TiffBytes tiff(exif);
  // Like Pillow, accepts 42 in the other byte order as well.
  const bool is_tiff = (exif.starts_with("II") || exif.starts_with("MM")) && tiff.has(0, 8) &&
                       (tiff.number(2, 2) == 42 || tiff.number(2, 2) == 42 << 8);
  if (!is_tiff) return 1;
  const std::uint64_t directory = tiff.number(4, 4);
  if (!tiff.has(directory, 2)) return std::nullopt;
  const std::uint64_t count = tiff.number(directory, 2);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t entry = directory + 2 + i * kEntryBytes;
    if (!tiff.has(entry, kEntryBytes)) break;
    if (tiff.number(entry, 2) != kOrientation) continue;
    if (const std::optional<double> value = orientation_at(tiff, entry)) return checked(*value);
  }
  return std::nullopt;
}

/// The first tiff:Orientation, an attribute or an element.
std::optional<int> orientation_of_xmp(std::string_view xmp) {
  constexpr std::string_view kName = "tiff:Orientation";
  for (std::size_t at = xmp.find(kName); at != std::string_view::npos; at = xmp.find(kName, at + 1)) {
    std::string_view rest = xmp.substr(at + kName.size());
    if (rest.starts_with("=\""))
      rest.remove_prefix(2);
    else if (rest.starts_with(">"))
      rest.remove_prefix(1);
    else
      continue;
    if (!rest.empty() && rest.front() >= '0' && rest.front() <= '9') return checked(rest.front() - '0');
  }
  return std::nullopt;
}

/// Maps (x, y) of the upright image to the pixel of the stored image [height, width].
struct Turn {
  bool swaps_axes;
  bool mirrors_x;  // of the stored image
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

int orientation_of(const PictureMetadata& metadata) {
  if (const std::optional<int> orientation = orientation_of_exif(metadata.exif)) return *orientation;
  return orientation_of_xmp(metadata.xmp).value_or(1);
}

std::string exif_of_raw_profile(std::string_view text) {
  // The numbers follow an empty line, a line with the name and a line with the length.
  for (int line = 0; line < 3; ++line) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  constexpr std::string_view kSpaces = " \t\n\v\f\r";
  std::string bytes;
  std::string digits;
  for (const char c : text) {
    if (digits.empty() && kSpaces.find(c) != std::string_view::npos) continue;
    if (c == '\n') continue;
    digits += c;
    if (digits.size() < 2) continue;
    unsigned value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + 2, value, 16);
    if (error != std::errc() || end != digits.data() + 2) return {};
    bytes += static_cast<char>(value);
    digits.clear();
  }
  return digits.empty() ? bytes : std::string();
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
