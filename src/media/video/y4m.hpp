#pragma once

#include <memory>
#include <string>

#include "media/video/video.hpp"

/// YUV4MPEG2, the format of mjpegtools that ffmpeg reads and writes as yuv4mpegpipe: a line of parameters, then
/// frames. A frame is a line that begins with FRAME, and planes of Y, Cb and Cr. Supported are progressive videos
/// of 8 bits: C420jpeg, C420mpeg2, C420paldv, C420, C422, C444 and Cmono. The range is limited unless
/// XCOLORRANGE=FULL or the options say otherwise. The matrix comes from the options, since the format has none.
/// Pixels are assumed to be square, and an unknown rate (0:0) to be 25 frames per second, as in ffmpeg.
namespace headroom {

[[nodiscard]] std::unique_ptr<VideoReader> open_y4m_reader(const std::string& name, const VideoReadOptions& options);

/// Writes C420jpeg or C444, with the range in the header.
[[nodiscard]] std::unique_ptr<VideoWriter> open_y4m_writer(const std::string& name, const VideoFormat& format,
                                                           const VideoWriteOptions& options);

}  // namespace headroom
