#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "media/ffmpeg/frame_to_rgb.hpp"
#include "media/ffmpeg/libraries.hpp"
#include "media/ffmpeg/video.hpp"
#include "media/image.hpp"
#include "media/orientation.hpp"
#include "media/video/video_limits.hpp"

namespace headroom {
namespace {

/// FFmpeg's names of the supported containers: single files with all their content. Playlists and other formats
/// that refer to files or addresses (hls, concat, dash, image2, ...) are excluded.
constexpr const char* kContainers =
    "mov,matroska,webm,avi,mpegts,mpeg,mpegvideo,m4v,flv,live_flv,ogg,asf,asf_o,gif,apng,ivf,h264,hevc,vvc,av1,obu,"
    "mjpeg,"
    "mjpeg_2000,mpjpeg,mxf,nut,rm,wtv,dv,nsv,swf,gxf,h261,h263,vc1,vc1test,dirac,cavsvideo,amv,yuv4mpegpipe,webp_pipe,"
    "png_pipe,jpeg_pipe,bmp_pipe,tiff_pipe";

/// Opens a container, but no other file or address that it may refer to; `name` is for messages.
AvInput open_input(const std::string& path, const std::string& name) {
  const FfmpegLibraries& l = ffmpeg();
  const bool is_pipe = path == "-";
  const std::string url = is_pipe ? "pipe:0" : "file:" + path;
  AVDictionary* options = nullptr;
  l.av_dict_set(&options, "protocol_whitelist", is_pipe ? "pipe" : "file", 0);
  l.av_dict_set(&options, "format_whitelist", kContainers, 0);
  AVFormatContext* context = nullptr;
  const int status = l.avformat_open_input(&context, url.c_str(), nullptr, &options);
  l.av_dict_free(&options);
  if (status == AVERROR_INVALIDDATA) fail("{} is no video that FFmpeg knows", name);
  if (status == AVERROR(EINVAL))
    fail(
        "{} is none of the containers that are read; expected one file with all of a video, such as mp4, mkv, webm or "
        "avi, "
        "and no playlist or list of files",
        name);
  if (status < 0) fail("cannot read {}: {}", name, ffmpeg_reason(status));
  return AvInput(context);
}

/// Decoded frames in order of their times.
class Decoder {
 public:
  Decoder(const std::string& path, const std::string& name)
      : name_(name), input_(open_input(path, name)), packet_(allocated(l_.av_packet_alloc())) {
#if LIBAVFORMAT_VERSION_INT < AV_VERSION_INT(60, 16, 100)
    l_.av_format_inject_global_side_data(input_.get());  // a frame then has the container's orientation
#endif
    if (const int status = l_.avformat_find_stream_info(input_.get(), nullptr); status < 0)
      fail("cannot read {}: {}", name, ffmpeg_reason(status));
    const AVCodec* codec = nullptr;
    const int index = l_.av_find_best_stream(input_.get(), AVMEDIA_TYPE_VIDEO, -1, -1, &codec, 0);
    if (index == AVERROR_DECODER_NOT_FOUND) fail("{} is of a codec that this FFmpeg cannot decode", name);
    if (index < 0) fail("{} has no video in it", name);
    stream_ = input_->streams[index];
    codec_.reset(allocated(l_.avcodec_alloc_context3(codec)));
    int status = l_.avcodec_parameters_to_context(codec_.get(), stream_->codecpar);
    codec_->pkt_timebase = stream_->time_base;
    codec_->thread_count = 0;  // one thread per core
    if (status >= 0) status = l_.avcodec_open2(codec_.get(), codec, nullptr);
    if (status < 0) fail("{} cannot be decoded: {}", name, ffmpeg_reason(status));
  }

  /// The next frame; false at the end.
  [[nodiscard]] bool next(AVFrame& frame) {
    while (true) {
      const int status = l_.avcodec_receive_frame(codec_.get(), &frame);
      if (status == AVERROR_EOF) return false;
      if (status == AVERROR(EAGAIN)) {
        feed();
        continue;
      }
      if (status < 0) fail_to_decode(ffmpeg_reason(status));
      if ((frame.flags & AV_FRAME_FLAG_CORRUPT) != 0 || frame.decode_error_flags != 0)
        fail_to_decode("its data is damaged");
      ++decoded_;
      return true;
    }
  }

  [[nodiscard]] AVRational rate(AVFrame& first) { return l_.av_guess_frame_rate(input_.get(), stream_, &first); }
  /// The mean frame rate, if the container states it or FFmpeg has analyzed enough frames; else 0.
  [[nodiscard]] double mean_rate() const {
    const AVRational mean = stream_->avg_frame_rate;
    return mean.num > 0 && mean.den > 0 ? av_q2d(mean) : 0;
  }
  /// The mean rate of the next frames, whose packets are kept for decoding; 0 if their times do not give it.
  [[nodiscard]] double mean_rate_ahead() {
    constexpr std::size_t kMost = 60;
    std::int64_t first = AV_NOPTS_VALUE;
    std::int64_t last = AV_NOPTS_VALUE;
    std::size_t count = 0;
    while (ahead_.size() < kMost && !has_ended_) {
      AvPacket packet(allocated(l_.av_packet_alloc()));
      if (!read_packet(*packet)) break;
      if (packet->pts != AV_NOPTS_VALUE) {
        first = count == 0 ? packet->pts : std::min(first, packet->pts);
        last = count == 0 ? packet->pts : std::max(last, packet->pts);
        ++count;
      }
      ahead_.push_back(std::move(packet));
    }
    return count > 1 && last > first
               ? static_cast<double>(count - 1) / (static_cast<double>(last - first) * seconds_per_tick())
               : 0;
  }
  [[nodiscard]] bool has_sound() const {
    for (unsigned i = 0; i < input_->nb_streams; ++i)
      if (input_->streams[i]->codecpar->codec_type == AVMEDIA_TYPE_AUDIO) return true;
    return false;
  }
  [[nodiscard]] double seconds_per_tick() const { return av_q2d(stream_->time_base); }
  [[nodiscard]] AVCodecID codec_id() const { return codec_->codec_id; }

 private:
  /// The next packet of the stream; false at the end.
  [[nodiscard]] bool read_packet(AVPacket& packet) {
    int status = 0;
    while ((status = l_.av_read_frame(input_.get(), &packet)) >= 0 && packet.stream_index != stream_->index)
      l_.av_packet_unref(&packet);
    if (status < 0 && status != AVERROR_EOF) fail_to_decode(ffmpeg_reason(status));
    has_ended_ = status < 0;
    return status >= 0;
  }

  /// Sends the decoder a packet of the stream, or the end of the stream.
  void feed() {
    bool is_there = !ahead_.empty();
    if (is_there) {
      packet_ = std::move(ahead_.front());
      ahead_.pop_front();
    } else {
      is_there = !has_ended_ && read_packet(*packet_);
    }
    const int sent = l_.avcodec_send_packet(codec_.get(), is_there ? packet_.get() : nullptr);
    l_.av_packet_unref(packet_.get());
    if (sent < 0) fail_to_decode(ffmpeg_reason(sent));
  }

  /// Threads decode ahead, so the failed frame is the expected one or slightly later.
  [[noreturn]] void fail_to_decode(const std::string& reason) const {
    fail("{} cannot be decoded from frame {} on: {}", name_, decoded_, reason);
  }

  const FfmpegLibraries& l_ = ffmpeg();
  std::string name_;
  AvInput input_;
  AvPacket packet_;
  AvCodec codec_;
  AVStream* stream_ = nullptr;
  std::deque<AvPacket> ahead_;  // read, but not sent to the decoder yet
  bool has_ended_ = false;
  std::uint64_t decoded_ = 0;
};

/// The Exif orientation of a frame, from its display matrix, which multiplies display coordinates (ISO/IEC
/// 14496-12, 8.3.2).
int orientation_of(const std::string& name, const AVFrame& frame) {
  const AVFrameSideData* const data = ffmpeg().av_frame_get_side_data(&frame, AV_FRAME_DATA_DISPLAYMATRIX);
  if (data == nullptr) return 1;
  constexpr std::int32_t kOne = 1 << 16;
  struct Turn {
    std::int32_t a, b, c, d;
    int orientation;
  };
  constexpr Turn kTurns[] = {{kOne, 0, 0, kOne, 1},   {-kOne, 0, 0, kOne, 2}, {-kOne, 0, 0, -kOne, 3},
                             {kOne, 0, 0, -kOne, 4},  {0, kOne, kOne, 0, 5},  {0, kOne, -kOne, 0, 6},
                             {0, -kOne, -kOne, 0, 7}, {0, -kOne, kOne, 0, 8}};
  std::int32_t m[9];
  HR_CHECK_EQ(data->size, sizeof m);
  std::memcpy(m, data->data, sizeof m);
  for (const Turn& turn : kTurns)
    if (m[0] == turn.a && m[1] == turn.b && m[3] == turn.c && m[4] == turn.d) return turn.orientation;
  fail("{} is to be shown turned by something else than quarter turns", name);
}

bool is_interlaced(const AVFrame& frame) {
#ifdef AV_FRAME_FLAG_INTERLACED
  return (frame.flags & AV_FRAME_FLAG_INTERLACED) != 0;
#else
  return frame.interlaced_frame != 0;
#endif
}

/// Frames at a constant rate, as in ffmpeg's filter fps: a frame is shown at the tick nearest to its time, and
/// repeated until the next one.
class FfmpegReader final : public VideoReader {
 public:
  FfmpegReader(const std::string& name, const VideoReadOptions& options)
      : name_(name == "-" ? "standard input" : name), decoder_(name, name_) {
    if (!decoder_.next(*coming_)) fail("{} has no frame in it", name_);
    orientation_ = orientation_of(name_, *coming_);
    const bool swaps = swaps_axes(orientation_);
    format_ = {.width = swaps ? coming_->height : coming_->width,
               .height = swaps ? coming_->width : coming_->height,
               .rate = options.rate ? *options.rate : find_rate(options.rate_where_none)};
    if (decoder_.has_sound())
      notes_.push_back(fmt::format("the sound of {} is left aside: frames alone are read and written", name_));
    check_video_format(name_, format_);
    width_ = coming_->width;
    height_ = coming_->height;
    pixels_ = coming_->format;
    to_rgb_ = std::make_unique<FrameToRgb>(name_, *coming_, decoder_.codec_id(), options.matrix, options.range);
    if (orientation_ != 1) lying_ = make_image(width_, height_, 3);
    first_time_ = coming_->best_effort_timestamp;
    coming_tick_ = 0;
    check(*coming_);
  }

  [[nodiscard]] const VideoFormat& format() const override { return format_; }
  [[nodiscard]] std::vector<std::string> notes() const override { return notes_; }

  [[nodiscard]] bool read(std::span<std::uint8_t> rgb) override {
    HR_CHECK_EQ(rgb.size(), format_.frame_bytes());
    while (coming_tick_ && *coming_tick_ <= tick_) advance(*coming_tick_);
    if (!coming_tick_ && tick_ > shown_tick_) return false;
    if (orientation_ == 1) {
      to_rgb_->convert(*shown_, rgb);
    } else {
      to_rgb_->convert(*shown_, lying_.pixels);
      turn_upright(lying_, orientation_, rgb);
    }
    ++tick_;
    return true;
  }

 private:
  /// The rate from the container or FFmpeg's guess, if the frame times match it. If they match no rate, FFmpeg
  /// guesses the resolution of the timestamps, 1000 or 90,000 per second, and frames would be repeated that often.
  [[nodiscard]] FrameRate find_rate(const std::optional<FrameRate>& where_none) {
    constexpr double kHighest = 120;  // frames per second of cameras by default
    constexpr double kIrregular = 2;  // ticks per frame
    const AVRational guess = decoder_.rate(*coming_);
    const bool is_guessed = guess.num > 0 && guess.den > 0;
    const double guessed = is_guessed ? av_q2d(guess) : 0;
    double mean = decoder_.mean_rate();
    if (is_guessed && guessed <= kHighest) {
      if (mean > 0 && guessed >= kIrregular * mean)
        notes_.push_back(fmt::format(
            "the frames of {} come irregularly, {:.1f} in a second on average, and are shown again to make the {:.4g} "
            "that it says; --input-fps gives another rate",
            name_, mean, guessed));
      return {guess.num, guess.den};
    }
    if (is_guessed && mean > 0 && guessed < kIrregular * mean) return {guess.num, guess.den};
    if (where_none) return *where_none;
    if (mean <= 0) mean = decoder_.mean_rate_ahead();
    constexpr int kUsual = 30;  // for a video of one frame
    const int rate = mean > 0 ? static_cast<int>(std::clamp(std::round(mean), 1.0, 1000.0)) : kUsual;
    notes_.push_back(fmt::format(
        "{} has no constant rate, and is taken at {} frames a second, the mean of its first frames; --input-fps gives "
        "another rate",
        name_, rate));
    return {rate, 1};
  }

  /// Shows the next frame at its tick, and reads the one after it.
  void advance(std::int64_t tick) {
    std::swap(shown_, coming_);
    shown_tick_ = tick;
    ffmpeg().av_frame_unref(coming_.get());
    coming_tick_.reset();
    if (!decoder_.next(*coming_)) return;
    ++index_;
    check(*coming_);
    coming_tick_ = tick_of(*coming_);
  }

  /// For a frame without a time: the tick after the previous frame's.
  [[nodiscard]] std::int64_t tick_of(const AVFrame& frame) const {
    const std::int64_t time = frame.best_effort_timestamp;
    if (time == AV_NOPTS_VALUE || first_time_ == AV_NOPTS_VALUE) return shown_tick_ + 1;
    const double ticks =
        static_cast<double>(time - first_time_) * decoder_.seconds_per_tick() * format_.rate.per_second();
    return std::llround(ticks);
  }

  void check(const AVFrame& frame) const {
    if (frame.width != width_ || frame.height != height_)
      fail("{} has {} by {} pixels in frame {} and {} by {} before; expected one size", name_, frame.width,
           frame.height, index_, width_, height_);
    if (frame.format != pixels_)
      fail("{} has another kind of pixels from frame {} on; expected one kind", name_, index_);
    if (is_interlaced(frame))
      fail("{} is interlaced (frame {}); expected whole frames: ffmpeg's filter yadif makes them", name_, index_);
  }

  std::string name_;
  std::vector<std::string> notes_;
  Decoder decoder_;
  AvFrame shown_{allocated(ffmpeg().av_frame_alloc())};
  AvFrame coming_{allocated(ffmpeg().av_frame_alloc())};
  std::optional<std::int64_t> coming_tick_;  // empty at the end
  std::int64_t shown_tick_ = -1;
  std::int64_t tick_ = 0;    // of the next read()
  std::uint64_t index_ = 0;  // index of coming_ among the decoded frames
  std::int64_t first_time_ = 0;
  int orientation_ = 1;
  VideoFormat format_;
  int width_ = 0, height_ = 0, pixels_ = 0;  // of the decoded frames
  std::unique_ptr<FrameToRgb> to_rgb_;
  Image lying_;  // the decoded image before rotation
};

}  // namespace

std::unique_ptr<VideoReader> open_ffmpeg_reader(const std::string& name, const VideoReadOptions& options) {
  return std::make_unique<FfmpegReader>(name, options);
}

}  // namespace headroom
