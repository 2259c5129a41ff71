#include "media/video/video.hpp"

#include "base/error.hpp"
#include "base/text/printable.hpp"
#include "media/ffmpeg/video.hpp"
#include "media/video/raw_video.hpp"
#include "media/video/video_limits.hpp"
#include "media/video/y4m.hpp"

namespace headroom {

VideoContainer video_container(std::string_view name) {
  if (name == "y4m") return VideoContainer::kY4m;
  if (name == "rgb") return VideoContainer::kRgb;
  if (name == "ffmpeg") return VideoContainer::kFfmpeg;
  fail_usage("'{}' is no container of videos; expected y4m, rgb or ffmpeg", printable_name(name));
}

ColorMatrix color_matrix(std::string_view name) {
  if (name == "bt601") return ColorMatrix::kBt601;
  if (name == "bt709") return ColorMatrix::kBt709;
  fail_usage("'{}' is no matrix of colours; expected bt601 or bt709", printable_name(name));
}

ColorRange color_range(std::string_view name) {
  if (name == "limited") return ColorRange::kLimited;
  if (name == "full") return ColorRange::kFull;
  fail_usage("'{}' is no range of colours; expected limited or full", printable_name(name));
}

VideoContainer container_of(std::string_view file_name) {
  if (file_name == "-" || file_name.ends_with(".y4m")) return VideoContainer::kY4m;
  return file_name.ends_with(".rgb") ? VideoContainer::kRgb : VideoContainer::kFfmpeg;
}

std::unique_ptr<VideoReader> open_video_reader(const std::string& name, const VideoReadOptions& options) {
  const VideoContainer container = options.container.value_or(container_of(name));
  if (container == VideoContainer::kRgb) {
    if (!options.raw)
      fail_usage("{} is raw RGB, which does not say the size of its frames; expected it to be given", name);
    check_video_format(name, *options.raw);
    return open_raw_reader(name, *options.raw);
  }
  if (options.raw) fail_usage("{} says itself what size its frames are; a size is expected with raw RGB only", name);
  if (container == VideoContainer::kFfmpeg) return open_ffmpeg_reader(name, options);
  return open_y4m_reader(name, options);
}

std::unique_ptr<VideoWriter> open_video_writer(const std::string& name, const VideoFormat& format,
                                               const VideoWriteOptions& options) {
  check_video_format(name, format);
  const VideoContainer container = options.container.value_or(container_of(name));
  if (container == VideoContainer::kY4m) return open_y4m_writer(name, format, options);
  if (container == VideoContainer::kFfmpeg) return open_ffmpeg_writer(name, format, options);
  return open_raw_writer(name);
}

}  // namespace headroom
