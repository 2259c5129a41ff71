#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace headroom {

/// Matrices between RGB and luma with colour differences: ITU-R BT.601-7 (2.5.1) and BT.709-6 (3.2).
enum class ColorMatrix : std::uint8_t { kBt601, kBt709 };

/// The matrix of a video that does not state one: BT.709 for HD, which is from 1280 columns or above 576 rows, else
/// BT.601.
[[nodiscard]] ColorMatrix usual_matrix(int width, int height);

/// The range of 8-bit samples: limited to 16 to 235 (luma) and 16 to 240 (colour differences), or full.
enum class ColorRange : std::uint8_t { kLimited, kFull };

/// The number and position of colour difference (chroma) samples.
enum class Chroma : std::uint8_t {
  kNone,        ///< gray
  k420Center,   ///< one per 2 x 2 pixels, in their centre (JPEG, MPEG-1)
  k420Left,     ///< between the left two of the four pixels (MPEG-2, H.264)
  k420TopLeft,  ///< at the first of the four pixels (DV; BT.2020)
  k422,         ///< one per two pixels of a row, at the first
  k444,         ///< one per pixel
};

/// The layout of a frame of luma and colour differences, 8 bits per sample.
struct YuvLayout {
  int width = 0;
  int height = 0;
  Chroma chroma = Chroma::k420Center;
  ColorMatrix matrix = ColorMatrix::kBt601;
  ColorRange range = ColorRange::kLimited;

  /// Extents of both colour difference planes; 0 for a gray frame.
  [[nodiscard]] int chroma_width() const;
  [[nodiscard]] int chroma_height() const;
  /// Bytes of all planes, contiguous.
  [[nodiscard]] std::size_t frame_bytes() const;
};

/// Y, Cb and Cr, rows from the top, `strides` bytes apart; a gray frame does not use the last two.
template <typename Byte>
struct YuvPlanes {
  std::array<Byte*, 3> planes;
  std::array<std::ptrdiff_t, 3> strides;
};

/// The planes of a contiguous frame.
[[nodiscard]] YuvPlanes<std::uint8_t> planes_of(const YuvLayout& layout, std::uint8_t* frame);

/// Converts frames of one layout to RGB, in the calling thread. Colour differences are interpolated linearly
/// between samples and replicated at the border. Values have 6 fractional bits and are rounded once, to nearest: at
/// most 0.55 from the exact value, with the same bytes on every CPU. Values outside RGB are clipped.
class YuvToRgb {
 public:
  explicit YuvToRgb(const YuvLayout& layout);
  /// `rgb` is [height, width, 3].
  void convert(const YuvPlanes<const std::uint8_t>& yuv, std::span<std::uint8_t> rgb);

 private:
  YuvLayout layout_;
  std::vector<std::int16_t> rows_[2];  // Cb and Cr of one row of pixels, times 4, with margins on both sides
};

/// Converts RGB to luma and colour differences, the inverse of YuvToRgb. Supports Chroma k420Center (mean of four
/// pixels), k420Left (weights 1, 2, 1 around the sample in each row), and k444.
class RgbToYuv {
 public:
  /// Throws std::logic_error for other kinds of chroma.
  explicit RgbToYuv(const YuvLayout& layout);
  /// `rgb` is [height, width, 3].
  void convert(std::span<const std::uint8_t> rgb, const YuvPlanes<std::uint8_t>& yuv);

 private:
  YuvLayout layout_;
  std::vector<std::int16_t> sums_[6];  // of two rows: red, green and blue of even pixels, then of odd pixels
};

}  // namespace headroom
