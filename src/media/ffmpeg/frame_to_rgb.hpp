#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "media/ffmpeg/libraries.hpp"
#include "media/video/yuv.hpp"

namespace headroom {

/// Converts the frames of one video to RGB; all must have the format of the first. YuvToRgb converts planes of 8
/// bits with the matrices of BT.601 and BT.709, as everywhere in the program. libswscale converts other formats,
/// with interpolation and accurate rounding.
class FrameToRgb {
 public:
  /// `matrix` and `range` override the video's. Throws Error, which begins with `name`, for formats without 8-bit
  /// RGB: HDR and rare colour formats.
  FrameToRgb(const std::string& name, const AVFrame& first, AVCodecID codec, std::optional<ColorMatrix> matrix,
             std::optional<ColorRange> range);

  /// `rgb` is [height, width, 3] of the stored frame.
  void convert(const AVFrame& frame, std::span<std::uint8_t> rgb);

 private:
  struct FreeScaler {
    void operator()(SwsContext* scaler) const { ffmpeg().sws_freeContext(scaler); }
  };

  std::optional<YuvToRgb> planes_;
  std::unique_ptr<SwsContext, FreeScaler> scaler_;  // if planes_ is empty
};

}  // namespace headroom
