#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "media/video/video.hpp"

namespace headroom {

/// Where a stream's frames come from and go to, as it is asked for.
struct StreamVideoArguments {
  std::string input, output;
  std::string input_format, output_format;  // of what names do not say
  std::int64_t width = 0, height = 0;       // of raw frames
  std::string input_matrix, input_range;
  std::optional<double> input_fps;  // of what FFmpeg reads, in place of what it says
  std::string output_matrix, output_range, output_chroma;
  std::string encoder, preset;
  std::int64_t quality = -1;
};

void add_stream_video_options(CLI::App& command, StreamVideoArguments& arguments);

/// Throw a usage Error for an option that says nothing of such a video, and Error where it cannot be opened. `fps` is what frames
/// are paced at, or 0: the rate of raw frames, and of a video that has no constant one.
[[nodiscard]] std::unique_ptr<VideoReader> open_input(const StreamVideoArguments& arguments, double fps);
[[nodiscard]] std::unique_ptr<VideoWriter> open_output(const StreamVideoArguments& arguments,
                                                       const VideoFormat& format);
/// Refuses what open_output() would, before anything is loaded.
void check_output(const StreamVideoArguments& arguments);

}  // namespace headroom
