#pragma once

#include <memory>
#include <string>

#include "media/video/video.hpp"

/// Frames of 8-bit RGB, one after another without a header: ffmpeg's rawvideo with -pix_fmt rgb24.
namespace headroom {

[[nodiscard]] std::unique_ptr<VideoReader> open_raw_reader(const std::string& name, const VideoFormat& format);
[[nodiscard]] std::unique_ptr<VideoWriter> open_raw_writer(const std::string& name);

}  // namespace headroom
