#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "media/video/video.hpp"

namespace headroom {

/// Source and destination of a stream's frames, from the options.
struct StreamVideoArguments {
  std::string input, output;
  std::string input_format, output_format;  // if names do not imply them
  std::int64_t width = 0, height = 0;       // size of raw frames
  std::string input_matrix, input_range;
  std::optional<double> input_fps;  // for FFmpeg inputs, overrides the rate in the file
  std::string output_matrix, output_range, output_chroma;
  std::string encoder, preset;
  std::int64_t quality = -1;
};

void add_stream_video_options(CLI::App& command, StreamVideoArguments& arguments);

/// Throw a usage Error for an option that does not apply to such a video, and Error if it cannot be opened. `fps`
/// is the pace of the frames, or 0. It is used as the rate of raw frames, and of videos without a constant rate.
[[nodiscard]] std::unique_ptr<VideoReader> open_input(const StreamVideoArguments& arguments, double fps);
[[nodiscard]] std::unique_ptr<VideoWriter> open_output(const StreamVideoArguments& arguments,
                                                       const VideoFormat& format);
/// Throws the errors of open_output() before anything is loaded.
void check_output(const StreamVideoArguments& arguments);

}  // namespace headroom
