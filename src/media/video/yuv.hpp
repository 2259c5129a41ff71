#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace headroom {

/// How luma and colour differences are made of red, green and blue: ITU-R BT.601-7 (2.5.1) and BT.709-6 (3.2).
enum class ColorMatrix : std::uint8_t { kBt601, kBt709 };

/// The matrix of a video that does not name its own: BT.709 from HD on, 1280 columns or more than 576 rows, else BT.601.
[[nodiscard]] ColorMatrix usual_matrix(int width, int height);

/// What 8 bits of a sample stand for: limited to 16 to 235 (luma) and 16 to 240 (colour differences), or all of them.
enum class ColorRange : std::uint8_t { kLimited, kFull };

/// How many samples of colour difference there are, and where.
enum class Chroma : std::uint8_t {
  kNone,        ///< gray
  k420Center,   ///< one for two by two pixels, in their middle (JPEG, MPEG-1)
  k420Left,     ///< between the left two of the four (MPEG-2, H.264)
  k420TopLeft,  ///< on the first of the four (DV; BT.2020)
  k422,         ///< one for two pixels of a row, on the first
  k444,         ///< one for each pixel
};

/// What a frame of luma and colour differences is, of 8 bits a sample.
struct YuvLayout {
  int width = 0;
  int height = 0;
  Chroma chroma = Chroma::k420Center;
  ColorMatrix matrix = ColorMatrix::kBt601;
  ColorRange range = ColorRange::kLimited;

  /// Extents of both planes of colour difference; 0 of a gray frame.
  [[nodiscard]] int chroma_width() const;
  [[nodiscard]] int chroma_height() const;
  /// Of all planes, one behind another without gaps.
  [[nodiscard]] std::size_t frame_bytes() const;
};

/// Y, Cb and Cr, rows from the top, `strides` bytes apart; of a gray frame the last two are not looked at.
template <typename Byte>
struct YuvPlanes {
  std::array<Byte*, 3> planes;
  std::array<std::ptrdiff_t, 3> strides;
};

/// Planes that stand one behind another without gaps.
[[nodiscard]] YuvPlanes<std::uint8_t> planes_of(const YuvLayout& layout, std::uint8_t* frame);

/// Makes RGB of frames of one layout, in this thread. Colour differences between their samples are interpolated
/// linearly, over the edge the outermost goes on. Numbers keep 6 fractional bits until each is rounded, once, to the
/// nearest: at most 0.55 from the exact value, the same bytes on every CPU. What has no RGB is clipped.
class YuvToRgb {
 public:
  explicit YuvToRgb(const YuvLayout& layout);
  /// `rgb` is [height, width, 3].
  void convert(const YuvPlanes<const std::uint8_t>& yuv, std::span<std::uint8_t> rgb);

 private:
  YuvLayout layout_;
  std::vector<std::int16_t> rows_[2];  // Cb and Cr of one row of pixels, times 4, with a margin on both sides
};

/// Makes luma and colour differences of RGB, as YuvToRgb takes them apart: of Chroma k420Center, where a sample is the
/// mean of four pixels, k420Left, where each row's pixels weigh 1, 2, 1 about it, and k444.
class RgbToYuv {
 public:
  /// Throws std::logic_error for other kinds of chroma.
  explicit RgbToYuv(const YuvLayout& layout);
  /// `rgb` is [height, width, 3].
  void convert(std::span<const std::uint8_t> rgb, const YuvPlanes<std::uint8_t>& yuv);

 private:
  YuvLayout layout_;
  std::vector<std::int16_t> sums_[6];  // of two rows: red, green and blue of even pixels, then those of odd ones
};

}  // namespace headroom
