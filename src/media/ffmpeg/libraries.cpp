#include "media/ffmpeg/libraries.hpp"

#include <array>
#include <string_view>

#include "base/error.hpp"
#include "base/files/opened_library.hpp"

namespace headroom {
namespace {

OpenedLibrary open(std::string_view name, int major) {
  constexpr int kFirst = 54;  // libavformat 58 is FFmpeg 4's, 59 is 5's
  try {
    return {"a video in a container like mp4", fmt::format("lib{}.so.{}", name, major),
            fmt::format("FFmpeg {}", LIBAVFORMAT_VERSION_MAJOR - kFirst)};
  } catch (const Error& error) {
    fail("{}; with any ffmpeg, `ffmpeg -i VIDEO -f yuv4mpegpipe -` in a pipe does without", error.what());
  }
}

FfmpegLibraries open_libraries() {
  const OpenedLibrary avutil = open("avutil", LIBAVUTIL_VERSION_MAJOR);
  const OpenedLibrary avcodec = open("avcodec", LIBAVCODEC_VERSION_MAJOR);
  const OpenedLibrary avformat = open("avformat", LIBAVFORMAT_VERSION_MAJOR);
  const OpenedLibrary swscale = open("swscale", LIBSWSCALE_VERSION_MAJOR);
  FfmpegLibraries l;
#define HR_FUNCTION(library, name) library.resolve(l.name, #name);
#include "media/ffmpeg/functions.def"
#undef HR_FUNCTION
#if LIBAVFORMAT_VERSION_INT < AV_VERSION_INT(60, 16, 100)
  avformat.resolve(l.av_format_inject_global_side_data, "av_format_inject_global_side_data");
#endif
  l.av_log_set_level(AV_LOG_QUIET);  // errors are reported by Error
  return l;
}

}  // namespace

const FfmpegLibraries& ffmpeg() {
  static const FfmpegLibraries opened = open_libraries();
  return opened;
}

std::string ffmpeg_reason(int error) {
  std::array<char, AV_ERROR_MAX_STRING_SIZE> text{};
  ffmpeg().av_strerror(error, text.data(), text.size());
  return text.data();
}

}  // namespace headroom
