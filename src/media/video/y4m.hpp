#pragma once

#include <memory>
#include <string>

#include "media/video/video.hpp"

/// YUV4MPEG2, the format of mjpegtools that ffmpeg reads and writes as yuv4mpegpipe: a line of parameters, then frames,
/// each a line that begins with FRAME and planes of Y, Cb and Cr. Read are progressive ones of 8 bits: C420jpeg,
/// C420mpeg2, C420paldv, C420, C422, C444 and Cmono, of limited range where neither XCOLORRANGE=FULL nor the options say
/// otherwise. The matrix is what the options say, for the format does not. Pixels are taken to be square, and a rate that is not known (0:0)
/// to be 25 frames a second, as ffmpeg takes it.
namespace headroom {

[[nodiscard]] std::unique_ptr<VideoReader> open_y4m_reader(const std::string& name, const VideoReadOptions& options);

/// C420jpeg or C444, which says its range.
[[nodiscard]] std::unique_ptr<VideoWriter> open_y4m_writer(const std::string& name, const VideoFormat& format,
                                                           const VideoWriteOptions& options);

}  // namespace headroom
