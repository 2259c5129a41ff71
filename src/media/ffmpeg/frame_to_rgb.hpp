#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "media/ffmpeg/libraries.hpp"
#include "media/video/yuv.hpp"

namespace headroom {

/// Makes RGB of the frames of one video, which all are of the kind of the first. Planes of 8 bits and the matrices of
/// BT.601 and BT.709 by YuvToRgb, as everywhere in the program; others by libswscale, with interpolation and accurate
/// rounding.
class FrameToRgb {
 public:
  /// `matrix` and `range` are in place of what the video says. Throws Error, which begins with `name`, for what has no RGB of 8 bits: HDR
  /// and rarer kinds of colour.
  FrameToRgb(const std::string& name, const AVFrame& first, AVCodecID codec, std::optional<ColorMatrix> matrix,
             std::optional<ColorRange> range);

  /// `rgb` is [height, width, 3] of the frame as it lies in the file.
  void convert(const AVFrame& frame, std::span<std::uint8_t> rgb);

 private:
  struct FreeScaler {
    void operator()(SwsContext* scaler) const { ffmpeg().sws_freeContext(scaler); }
  };

  std::optional<YuvToRgb> planes_;
  std::unique_ptr<SwsContext, FreeScaler> scaler_;  // where planes_ is none
};

}  // namespace headroom
