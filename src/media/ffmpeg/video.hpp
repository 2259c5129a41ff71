#pragma once

#include <memory>
#include <string>

#include "media/video/video.hpp"

/// Videos in any container and codec, by FFmpeg's libraries, which are opened by their sonames when the first video is.
namespace headroom {

[[nodiscard]] std::unique_ptr<VideoReader> open_ffmpeg_reader(const std::string& name, const VideoReadOptions& options);

[[nodiscard]] std::unique_ptr<VideoWriter> open_ffmpeg_writer(const std::string& name, const VideoFormat& format,
                                                              const VideoWriteOptions& options);

}  // namespace headroom
