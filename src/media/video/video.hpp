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

/// Frames per second: 30000/1001 and the like.
struct FrameRate {
  int numerator = 30;
  int denominator = 1;

  [[nodiscard]] double per_second() const { return static_cast<double>(numerator) / denominator; }
  friend bool operator==(const FrameRate&, const FrameRate&) = default;
};

/// The common format of a video's frames. A frame is [height, width, 3], top row first, 8-bit RGB interleaved
/// (transfer function of sRGB or BT.709: bytes are passed on unchanged).
struct VideoFormat {
  int width = 0;
  int height = 0;
  FrameRate rate;

  [[nodiscard]] std::size_t frame_bytes() const {
    return std::size_t{3} * static_cast<std::size_t>(width) * static_cast<std::size_t>(height);
  }
  friend bool operator==(const VideoFormat&, const VideoFormat&) = default;
};

/// The format of a stream: a container that this program reads and writes itself, or one of FFmpeg's.
///  y4m  YUV4MPEG2, as `ffmpeg -f yuv4mpegpipe`
///  rgb  frames of 8-bit RGB one after another, without a header, as `ffmpeg -f rawvideo -pix_fmt rgb24`
enum class VideoContainer : std::uint8_t { kY4m, kRgb, kFfmpeg };

/// "y4m", "rgb" or "ffmpeg". Throws Error (usage) for another.
[[nodiscard]] VideoContainer video_container(std::string_view name);

/// "bt601" or "bt709", and "limited" or "full". Throw Error (usage) for another.
[[nodiscard]] ColorMatrix color_matrix(std::string_view name);
[[nodiscard]] ColorRange color_range(std::string_view name);

/// The container of a file name: .y4m or .rgb by suffix, y4m for "-" (standard input or output), else FFmpeg's.
[[nodiscard]] VideoContainer container_of(std::string_view file_name);

struct VideoReadOptions {
  std::optional<VideoContainer> container = std::nullopt;  ///< default: container_of() the name
  std::optional<VideoFormat> raw = std::nullopt;  ///< format of an rgb stream, which has no header; refused for others
  /// Overrides the video's matrix and range. The defaults are those of the video, else usual_matrix() (y4m never
  /// states a matrix) and the limited range. Not for rgb.
  std::optional<ColorMatrix> matrix = std::nullopt;
  std::optional<ColorRange> range = std::nullopt;
  /// For FFmpeg's containers: frames per second, overriding the video's.
  std::optional<FrameRate> rate = std::nullopt;
  /// The rate for videos without a constant rate. Without it, the mean rate of the first frames is used.
  std::optional<FrameRate> rate_where_none = std::nullopt;
};

struct VideoWriteOptions {
  std::optional<VideoContainer> container = std::nullopt;  ///< default: container_of() the name
  std::optional<ColorMatrix> matrix = std::nullopt;        ///< default: usual_matrix(); not for rgb
  ColorRange range = ColorRange::kLimited;                 ///< not for rgb
  bool full_chroma = false;  ///< y4m: 4:4:4, which keeps colours sharp, instead of 4:2:0, which all programs read
  int quality = 18;  ///< FFmpeg's: x264's constant rate factor, 0 (lossless) to 51; nearest setting of other encoders
  std::string preset = "veryfast";  ///< speed preset of x264 and x265
  std::string encoder = {};         ///< FFmpeg's name of an encoder; empty: libx264, or the best available
};

/// A video that is read frame by frame, by one thread at a time.
class VideoReader {
 public:
  virtual ~VideoReader() = default;
  /// The format from the header; constant.
  [[nodiscard]] virtual const VideoFormat& format() const = 0;
  /// Facts for the user, a sentence each: guessed properties of the video, and ignored parts of it.
  [[nodiscard]] virtual std::vector<std::string> notes() const { return {}; }
  /// Reads the next frame into `rgb`, format().frame_bytes() long; blocks until there is one. Returns false at the
  /// end; `rgb` is then undefined. Throws Error that names the file and the frame, counted from 0.
  [[nodiscard]] virtual bool read(std::span<std::uint8_t> rgb) = 0;

 protected:
  VideoReader() = default;
  VideoReader(const VideoReader&) = default;
  VideoReader& operator=(const VideoReader&) = default;
};

/// A video that is written frame by frame, by one thread at a time. A file appears complete under its name with
/// finish(); without it, an existing file is unchanged.
class VideoWriter {
 public:
  virtual ~VideoWriter() = default;
  /// Writes one frame of the given format. Blocks while the reader of a pipe is busy. Throws Error, also if a pipe
  /// has no reader any more.
  virtual void write(std::span<const std::uint8_t> rgb) = 0;
  /// Writes the remaining data and renames the file to its name. To be called once, after the last frame.
  virtual void finish() = 0;

 protected:
  VideoWriter() = default;
  VideoWriter(const VideoWriter&) = default;
  VideoWriter& operator=(const VideoWriter&) = default;
};

/// Opens a file, or standard input for "-", and reads its header. For FFmpeg's containers, reads the first video
/// stream at its constant rate or the rate of the options; frames are repeated or skipped as needed. Frames are
/// made upright, pixels are assumed to be square, and sound is ignored. Containers that refer to other files, such
/// as playlists, are not supported. Throws Error, one sentence with the name, also for interlaced and HDR video.
[[nodiscard]] std::unique_ptr<VideoReader> open_video_reader(const std::string& name,
                                                             const VideoReadOptions& options = {});

/// Creates a file, or opens standard output for "-". Throws Error.
[[nodiscard]] std::unique_ptr<VideoWriter> open_video_writer(const std::string& name, const VideoFormat& format,
                                                             const VideoWriteOptions& options = {});

}  // namespace headroom
