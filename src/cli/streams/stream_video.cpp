#include "cli/streams/stream_video.hpp"

#include <cmath>
#include <optional>
#include <string_view>

#include "base/error.hpp"
#include "cli/number.hpp"
#include "media/video/test_video.hpp"

namespace headroom {
namespace {

/// The container of a video; empty if it is generated or discarded.
std::optional<VideoContainer> container_for(const std::string& name, const std::string& format, bool is_made_here) {
  if (is_made_here) return std::nullopt;
  return format.empty() ? container_of(name) : video_container(format);
}

std::string_view kind_of(std::optional<VideoContainer> container) {
  if (!container) return "no file and no pipe";
  switch (*container) {
    case VideoContainer::kY4m:
      return "y4m";
    case VideoContainer::kRgb:
      return "rgb, which has red, green and blue as they are";
    case VideoContainer::kFfmpeg:
      return "for FFmpeg";
  }
  return "";
}

/// Rejects an option that was given for another kind of video.
void require_kind(const char* option, bool is_given, bool is_for_it, const std::string& name,
                  std::optional<VideoContainer> container, const char* meant) {
  if (is_given && !is_for_it) fail_usage("{} is for {}, and {} is {}", option, meant, name, kind_of(container));
}

bool has_colour_differences(std::optional<VideoContainer> container) {
  return container == VideoContainer::kY4m || container == VideoContainer::kFfmpeg;
}

constexpr const char* kWithDifferences = "videos of luma and colour differences, y4m and what FFmpeg reads and writes";

FrameRate frame_rate(double per_second) { return {static_cast<int>(std::lround(1000 * per_second)), 1000}; }

VideoReadOptions read_options(const StreamVideoArguments& arguments, double fps) {
  const auto container = container_for(arguments.input, arguments.input_format, is_test_video(arguments.input));
  for (const auto& [option, value] :
       {std::pair("--input-matrix", &arguments.input_matrix), {"--input-range", &arguments.input_range}})
    require_kind(option, !value->empty(), has_colour_differences(container), arguments.input, container,
                 kWithDifferences);
  require_kind("--input-fps", arguments.input_fps.has_value(), container == VideoContainer::kFfmpeg, arguments.input,
               container, "what FFmpeg reads");
  if (is_test_video(arguments.input))
    require_kind("--width", arguments.width != 0, false, arguments.input, container, "an rgb input");
  VideoReadOptions options{.container = container};
  if (arguments.input_fps) options.rate = frame_rate(*arguments.input_fps);
  if (fps > 0) options.rate_where_none = frame_rate(fps);
  if (!arguments.input_matrix.empty()) options.matrix = color_matrix(arguments.input_matrix);
  if (!arguments.input_range.empty()) options.range = color_range(arguments.input_range);
  if (arguments.width != 0 || arguments.height != 0)
    options.raw = VideoFormat{.width = static_cast<int>(arguments.width),
                              .height = static_cast<int>(arguments.height),
                              .rate = frame_rate(fps > 0 ? fps : 30)};
  return options;
}

VideoWriteOptions write_options(const StreamVideoArguments& arguments) {
  const auto container = container_for(arguments.output, arguments.output_format, is_null_video(arguments.output));
  const auto check = [&](const char* option, bool is_given, bool is_for_it, const char* meant) {
    require_kind(option, is_given, is_for_it, arguments.output, container, meant);
  };
  const bool is_ffmpeg = container == VideoContainer::kFfmpeg;
  check("--output-matrix", !arguments.output_matrix.empty(), has_colour_differences(container), kWithDifferences);
  check("--output-range", !arguments.output_range.empty(), has_colour_differences(container), kWithDifferences);
  check("--output-chroma", !arguments.output_chroma.empty(), container == VideoContainer::kY4m, "y4m");
  check("--encoder", !arguments.encoder.empty(), is_ffmpeg, "what FFmpeg writes");
  check("--encoder-quality", arguments.quality >= 0, is_ffmpeg, "what FFmpeg writes");
  check("--encoder-preset", !arguments.preset.empty(), is_ffmpeg, "what FFmpeg writes");

  VideoWriteOptions options{.container = container};
  if (!arguments.output_matrix.empty()) options.matrix = color_matrix(arguments.output_matrix);
  if (!arguments.output_range.empty()) options.range = color_range(arguments.output_range);
  options.full_chroma = arguments.output_chroma == "444";
  options.encoder = arguments.encoder;
  if (arguments.quality >= 0) options.quality = static_cast<int>(arguments.quality);
  if (!arguments.preset.empty()) options.preset = arguments.preset;
  return options;
}

}  // namespace

void add_stream_video_options(CLI::App& command, StreamVideoArguments& arguments) {
  command
      .add_option("--input", arguments.input,
                  "input video; - for standard input; test:WIDTHxHEIGHT@FPS:FRAMES for a moving test image, endless "
                  "without :FRAMES; scene:... for moving shapes")
      ->required()
      ->type_name("VIDEO");
  command
      .add_option("--out", arguments.output,
                  "output video; - for standard output; null: (with the colon) to discard the frames")
      ->required()
      ->type_name("VIDEO");
  command.add_option("--input-format", arguments.input_format,
                     "format of the input, y4m, rgb or ffmpeg, if its name does not imply it; default for -: y4m");
  command.add_option("--output-format", arguments.output_format, "the same for the output");
  command.add_option("--width", arguments.width, "frame width of an rgb input, in pixels")
      ->check(whole_number(1, 16'384));
  command.add_option("--height", arguments.height, "frame height of an rgb input, in pixels")
      ->check(whole_number(1, 16'384));
  command.add_option("--input-matrix", arguments.input_matrix,
                     "colour matrix of the input, bt601 or bt709; overrides the one in the file");
  command.add_option("--input-range", arguments.input_range,
                     "range of the input's 8-bit values, limited or full; overrides the one in the file");
  command
      .add_option("--input-fps", arguments.input_fps,
                  "frames per second of a video that FFmpeg reads; overrides the rate in the file")
      ->check(real_number(0.01, 1000));
  command.add_option(
      "--output-matrix", arguments.output_matrix,
      "colour matrix of the output, bt601 or bt709; default: bt709 from 1280 columns or above 576 rows, else bt601");
  command.add_option("--output-range", arguments.output_range,
                     "range of the output's 8-bit values, limited (default) or full");
  command
      .add_option("--output-chroma", arguments.output_chroma,
                  "chroma subsampling of y4m: 420, which all programs read, or 444, which keeps colours sharp")
      ->check(CLI::IsMember({"420", "444"}));
  command.add_option("--encoder", arguments.encoder,
                     "FFmpeg's name of the video encoder; default: libx264, or the best available");
  command
      .add_option("--encoder-quality", arguments.quality,
                  "constant rate factor of x264, 0 (best) to 51, or the nearest setting of other encoders; default: 18")
      ->check(whole_number(0, 51));
  command.add_option(
      "--encoder-preset", arguments.preset,
      "speed preset of x264 and x265, ultrafast to placebo; slower ones give smaller files; default: veryfast");
}

std::unique_ptr<VideoReader> open_input(const StreamVideoArguments& arguments, double fps) {
  const VideoReadOptions options = read_options(arguments, fps);
  return is_test_video(arguments.input) ? open_test_video(arguments.input)
                                        : open_video_reader(arguments.input, options);
}

std::unique_ptr<VideoWriter> open_output(const StreamVideoArguments& arguments, const VideoFormat& format) {
  const VideoWriteOptions options = write_options(arguments);
  return is_null_video(arguments.output) ? make_null_video() : open_video_writer(arguments.output, format, options);
}

void check_output(const StreamVideoArguments& arguments) { static_cast<void>(write_options(arguments)); }

}  // namespace headroom
