#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "media/video/yuv.hpp"

namespace headroom {

/// Frames in a second: 30000/1001 and the like.
struct FrameRate {
  int numerator = 30;
  int denominator = 1;

  [[nodiscard]] double per_second() const { return static_cast<double>(numerator) / denominator; }
  friend bool operator==(const FrameRate&, const FrameRate&) = default;
};

/// What a video's frames have in common. A frame is [height, width, 3], top row first, 8-bit RGB interleaved (sRGB's or
/// BT.709's transfer: bytes are handed on as they are).
struct VideoFormat {
  int width = 0;
  int height = 0;
  FrameRate rate;

  [[nodiscard]] std::size_t frame_bytes() const {
    return std::size_t{3} * static_cast<std::size_t>(width) * static_cast<std::size_t>(height);
  }
  friend bool operator==(const VideoFormat&, const VideoFormat&) = default;
};

/// What a stream holds: a container that this program reads and writes itself, or one of FFmpeg's.
///   y4m  YUV4MPEG2, what `ffmpeg -f yuv4mpegpipe` reads and writes
///   rgb  frames of 8-bit RGB one behind another, without a header, what `ffmpeg -f rawvideo -pix_fmt rgb24` does
enum class VideoContainer : std::uint8_t { kY4m, kRgb, kFfmpeg };

/// "y4m", "rgb" or "ffmpeg". Throws Error (usage) for another.
[[nodiscard]] VideoContainer video_container(std::string_view name);

/// "bt601" or "bt709", and "limited" or "full". Throw Error (usage) for another.
[[nodiscard]] ColorMatrix color_matrix(std::string_view name);
[[nodiscard]] ColorRange color_range(std::string_view name);

/// The one that a name stands for: by its ending .y4m or .rgb, y4m for "-" (standard input or output), else FFmpeg's.
[[nodiscard]] VideoContainer container_of(std::string_view file_name);

struct VideoReadOptions {
  std::optional<VideoContainer> container = std::nullopt;  ///< container_of() the name where none is given
  std::optional<VideoFormat> raw =
      std::nullopt;  ///< what an rgb stream holds, which does not say it; for others refused
  /// In place of what the video says, which for rgb is nothing: without, what it says, or else usual_matrix() (y4m never names one) and the
  /// limited range.
  std::optional<ColorMatrix> matrix = std::nullopt;
  std::optional<ColorRange> range = std::nullopt;
  /// Of FFmpeg's containers, frames in a second, in place of what the video says.
  std::optional<FrameRate> rate = std::nullopt;
  /// The same where the video has no constant rate. Without either, the mean rate of its first frames.
  std::optional<FrameRate> rate_where_none = std::nullopt;
};

struct VideoWriteOptions {
  std::optional<VideoContainer> container = std::nullopt;  ///< container_of() the name where none is given
  std::optional<ColorMatrix> matrix = std::nullopt;        ///< usual_matrix() where none is given; none for rgb
  ColorRange range = ColorRange::kLimited;                 ///< none for rgb
  bool full_chroma = false;  ///< y4m: 4:4:4, which keeps sharp colours, rather than 4:2:0, which all programs read
  int quality = 18;  ///< FFmpeg's: x264's constant rate factor, 0 (lossless) to 51; of other encoders the nearest
  std::string preset = "veryfast";  ///< x264's and x265's speed against size
  std::string encoder = {};         ///< FFmpeg's name of one; none: libx264, or the best that there is
};

/// A video that is read frame by frame, by one thread at a time.
class VideoReader {
 public:
  virtual ~VideoReader() = default;
  /// What was known after the header; the same until the end.
  [[nodiscard]] virtual const VideoFormat& format() const = 0;
  /// What its user should know, a sentence each: what was guessed of the video, and what of it is left aside.
  [[nodiscard]] virtual std::vector<std::string> notes() const { return {}; }
  /// The next frame into `rgb`, format().frame_bytes() long; blocks until there is one. False at the end, after which
  /// `rgb` may hold anything. Throws Error that names the file and the frame, counted from 0.
  [[nodiscard]] virtual bool read(std::span<std::uint8_t> rgb) = 0;

 protected:
  VideoReader() = default;
  VideoReader(const VideoReader&) = default;
  VideoReader& operator=(const VideoReader&) = default;
};

/// A video that is written frame by frame, by one thread at a time. A file appears under its name with finish(), whole;
/// without it, what stood there is untouched.
class VideoWriter {
 public:
  virtual ~VideoWriter() = default;
  /// One frame, of the format that was given. Blocks while what reads a pipe is busy. Throws Error, also where nobody
  /// reads the pipe any more.
  virtual void write(std::span<const std::uint8_t> rgb) = 0;
  /// Writes what is left, and gives the file its name. Once, after the last frame.
  virtual void finish() = 0;

 protected:
  VideoWriter() = default;
  VideoWriter(const VideoWriter&) = default;
  VideoWriter& operator=(const VideoWriter&) = default;
};

/// Opens a file, or standard input for "-", and reads its header. Of FFmpeg's containers the first video is read, at its
/// constant rate or the one of the options (a picture is shown again or left out as it must), upright, pixels taken to be
/// square; sound is left aside. Containers that name other files, such as playlists, are not read. Throws Error, one
/// sentence with the name; among what is refused are interlaced and HDR video.
[[nodiscard]] std::unique_ptr<VideoReader> open_video_reader(const std::string& name,
                                                             const VideoReadOptions& options = {});

/// Begins a file, or standard output for "-". Throws Error.
[[nodiscard]] std::unique_ptr<VideoWriter> open_video_writer(const std::string& name, const VideoFormat& format,
                                                             const VideoWriteOptions& options = {});

}  // namespace headroom
