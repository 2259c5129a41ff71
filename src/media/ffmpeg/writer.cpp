#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/text/printable.hpp"
#include "media/ffmpeg/libraries.hpp"
#include "media/ffmpeg/video.hpp"
#include "media/video/yuv.hpp"

namespace headroom {
namespace {

/// A file that FFmpeg writes, with seeking, through our functions.
class OutputFile {
 public:
  explicit OutputFile(const std::string& name) : file_(name) {
    constexpr int kBufferBytes = 1 << 18;
    auto* const buffer = static_cast<unsigned char*>(allocated(l_.av_malloc(kBufferBytes)));
    context_ = l_.avio_alloc_context(buffer, kBufferBytes, 1, this, nullptr, on_write, on_seek);
    if (context_ == nullptr) {
      l_.av_free(buffer);
      throw std::bad_alloc();
    }
  }
  ~OutputFile() {
    l_.av_free(context_->buffer);
    l_.avio_context_free(&context_);
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  [[nodiscard]] AVIOContext* context() const noexcept { return context_; }
  /// Rethrows the error of a failed write, if any.
  void check() const {
    if (failure_) std::rethrow_exception(failure_);
  }
  void finish() {
    l_.avio_flush(context_);
    check();
    file_.commit();
  }

 private:
  template <typename Byte>  // const from libavformat 61 on
  static int on_write(void* self, Byte* bytes, int size) {
    auto& file = *static_cast<OutputFile*>(self);
    try {
      const std::span<const std::uint8_t> given(bytes, static_cast<std::size_t>(size));
      file.file_.write_at(file.position_, std::as_bytes(given));
    } catch (...) {  // must not pass through FFmpeg
      if (!file.failure_) file.failure_ = std::current_exception();
      return AVERROR(EIO);
    }
    file.position_ += static_cast<std::uint64_t>(size);
    file.end_ = std::max(file.end_, file.position_);
    return size;
  }

  static std::int64_t on_seek(void* self, std::int64_t offset, int whence) {
    auto& file = *static_cast<OutputFile*>(self);
    const auto end = static_cast<std::int64_t>(file.end_);
    if (whence == AVSEEK_SIZE) return end;
    const std::int64_t from = whence == SEEK_CUR   ? static_cast<std::int64_t>(file.position_)
                              : whence == SEEK_END ? end
                                                   : 0;
    if (from + offset < 0) return AVERROR(EINVAL);
    file.position_ = static_cast<std::uint64_t>(from + offset);
    return from + offset;
  }

  const FfmpegLibraries& l_ = ffmpeg();
  AtomicFile file_;
  AVIOContext* context_ = nullptr;
  std::uint64_t position_ = 0, end_ = 0;
  std::exception_ptr failure_;
};

struct FreeOutput {
  void operator()(AVFormatContext* context) const { ffmpeg().avformat_free_context(context); }
};
using AvOutput = std::unique_ptr<AVFormatContext, FreeOutput>;

constexpr const char* kWhatCanBeWritten = "expected .mp4, .mkv, .webm, .y4m or .rgb, or null: to discard the frames";

AvOutput open_container(const std::string& name) {
  AVFormatContext* context = nullptr;
  const int status = ffmpeg().avformat_alloc_output_context2(&context, nullptr, nullptr, name.c_str());
  if (status == AVERROR(EINVAL)) fail_usage("{} has no suffix of a video container; {}", name, kWhatCanBeWritten);
  if (status < 0) fail("cannot write {}: {}", name, ffmpeg_reason(status));
  AvOutput output(context);
  const AVCodecID codec = context->oformat->video_codec;
  if ((context->oformat->flags & AVFMT_NOFILE) != 0 || codec == AV_CODEC_ID_NONE)
    fail_usage("{} would be {}, which is no file with a video; {}", name, context->oformat->long_name,
               kWhatCanBeWritten);
  if (codec == AV_CODEC_ID_GIF || codec == AV_CODEC_ID_APNG)
    fail_usage("{} would be {}, which has no 4:2:0; {}", name, context->oformat->long_name, kWhatCanBeWritten);
  return output;
}

/// The requested encoder, or the first available of those that compress well and that the container supports.
const AVCodec& encoder_for(const std::string& name, const AVFormatContext& output, const std::string& asked) {
  const FfmpegLibraries& l = ffmpeg();
  const auto is_taken = [&](const AVCodec* encoder) {
    return encoder != nullptr && encoder->type == AVMEDIA_TYPE_VIDEO &&
           l.avformat_query_codec(output.oformat, encoder->id, FF_COMPLIANCE_NORMAL) == 1;
  };
  std::vector<const char*> names = {"libx264", "libopenh264", "libvpx-vp9", "libvpx", "mpeg4"};
  if (!asked.empty()) names = {asked.c_str()};
  for (const char* const candidate : names)
    if (const AVCodec* const encoder = l.avcodec_find_encoder_by_name(candidate); is_taken(encoder)) return *encoder;
  const AVCodec* const usual = l.avcodec_find_encoder(output.oformat->video_codec);
  if (asked.empty() && is_taken(usual)) return *usual;
  fail("cannot write {}: this FFmpeg has no encoder {}{}that a file of the kind {} takes", name, asked,
       asked.empty() ? "" : " ", output.oformat->long_name);
}

/// x264's constant rate factor, and for other encoders a quantizer of similar coarseness. A quantizer step of H.264
/// doubles every 6 values, from 1 at 4; MPEG-4's step is twice its number; VP8 and VP9 go up to 63.
void set_quality(AVCodecContext& codec, const VideoWriteOptions& options) {
  const FfmpegLibraries& l = ffmpeg();
  const std::string_view name = codec.codec->name;
  if (name == "libx264" || name == "libx265") {
    l.av_opt_set(codec.priv_data, "preset", options.preset.c_str(), 0);
    l.av_opt_set(codec.priv_data, "crf", std::to_string(options.quality).c_str(), 0);
    if (name == "libx265") l.av_opt_set(codec.priv_data, "x265-params", "log-level=none", 0);
  } else if (name.starts_with("libvpx")) {
    codec.bit_rate = 0;
    l.av_opt_set(codec.priv_data, "crf", std::to_string(options.quality * 63 / 51).c_str(), 0);
    l.av_opt_set(codec.priv_data, "deadline", "realtime", 0);
    l.av_opt_set(codec.priv_data, "cpu-used", "8", 0);
  } else {
    codec.flags |= AV_CODEC_FLAG_QSCALE;
    const double scale = std::clamp(std::exp2((options.quality - 4) / 6.0) / 2, 1.0, 31.0);
    codec.global_quality = static_cast<int>(std::lround(scale * FF_QP2LAMBDA));
  }
}

/// Checks options for which x264 would print its own messages to standard error.
void check_options(const VideoWriteOptions& options) {
  constexpr std::string_view kPresets[] = {"ultrafast", "superfast", "veryfast", "faster",   "fast",
                                           "medium",    "slow",      "slower",   "veryslow", "placebo"};
  if (options.quality < 0 || options.quality > 51)
    fail_usage("the quality of a video is 0 (the best) to 51, not {}", options.quality);
  if (std::ranges::find(kPresets, options.preset) == std::end(kPresets))
    fail_usage("a video's preset is {}, not '{}'", fmt::join(kPresets, ", "), printable_name(options.preset));
}

class FfmpegWriter final : public VideoWriter {
 public:
  FfmpegWriter(const std::string& name, const VideoFormat& format, const VideoWriteOptions& options)
      : name_(name),
        layout_{.width = format.width,
                .height = format.height,
                .chroma = Chroma::k420Left,
                .matrix = options.matrix.value_or(usual_matrix(format.width, format.height)),
                .range = options.range},
        to_yuv_(layout_),
        output_(open_container(name)),
        file_(name),
        packet_(allocated(l_.av_packet_alloc())),
        frame_(allocated(l_.av_frame_alloc())) {
    output_->pb = file_.context();
    open_encoder(format, options);
    stream_ = allocated(l_.avformat_new_stream(output_.get(), nullptr));
    stream_->time_base = codec_->time_base;
    stream_->avg_frame_rate = codec_->framerate;
    check(l_.avcodec_parameters_from_context(stream_->codecpar, codec_.get()));
    check(l_.avformat_write_header(output_.get(), nullptr));
    frame_->width = layout_.width;
    frame_->height = layout_.height;
    frame_->format = codec_->pix_fmt;
    frame_->quality = codec_->global_quality;
    frame_->color_range = codec_->color_range;
    frame_->colorspace = codec_->colorspace;
    check(l_.av_frame_get_buffer(frame_.get(), 0));
  }

  void write(std::span<const std::uint8_t> rgb) override {
    check(l_.av_frame_make_writable(frame_.get()));
    to_yuv_.convert(rgb, {{frame_->data[0], frame_->data[1], frame_->data[2]},
                          {frame_->linesize[0], frame_->linesize[1], frame_->linesize[2]}});
    frame_->pts = count_++;
    check(l_.avcodec_send_frame(codec_.get(), frame_.get()));
    write_packets();
  }

  void finish() override {
    check(l_.avcodec_send_frame(codec_.get(), nullptr));
    write_packets();
    check(l_.av_write_trailer(output_.get()));
    file_.finish();
  }

 private:
  void open_encoder(const VideoFormat& format, const VideoWriteOptions& options) {
    const AVCodec& encoder = encoder_for(name_, *output_, options.encoder);
    if (encoder.id == AV_CODEC_ID_H264 && (format.width % 2 != 0 || format.height % 2 != 0))
      fail("cannot write {}: H.264 takes frames of even width and height, not {} by {} pixels", name_, format.width,
           format.height);
    codec_.reset(allocated(l_.avcodec_alloc_context3(&encoder)));
    describe(format);
    set_quality(*codec_, options);
    if (const int status = l_.avcodec_open2(codec_.get(), &encoder, nullptr); status < 0)
      fail(
          "cannot write {}: {} does not take {} by {} pixels of 4:2:0 at {}/{} frames a second, quality {}, preset "
          "'{}': "
          "{}",
          name_, encoder.name, format.width, format.height, format.rate.numerator, format.rate.denominator,
          options.quality, options.preset, ffmpeg_reason(status));
  }

  void describe(const VideoFormat& format) {
    codec_->width = format.width;
    codec_->height = format.height;
    codec_->pix_fmt = AV_PIX_FMT_YUV420P;
    codec_->time_base = {format.rate.denominator, format.rate.numerator};
    codec_->framerate = {format.rate.numerator, format.rate.denominator};
    codec_->color_range = layout_.range == ColorRange::kFull ? AVCOL_RANGE_JPEG : AVCOL_RANGE_MPEG;
    codec_->colorspace = layout_.matrix == ColorMatrix::kBt709 ? AVCOL_SPC_BT709 : AVCOL_SPC_SMPTE170M;
    codec_->color_primaries = AVCOL_PRI_BT709;  // the primaries of sRGB too
    codec_->color_trc = AVCOL_TRC_BT709;
    codec_->chroma_sample_location = AVCHROMA_LOC_LEFT;
    if ((output_->oformat->flags & AVFMT_GLOBALHEADER) != 0) codec_->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
  }

  void write_packets() {
    while (true) {
      const int status = l_.avcodec_receive_packet(codec_.get(), packet_.get());
      if (status == AVERROR(EAGAIN) || status == AVERROR_EOF) return;
      check(status);
      l_.av_packet_rescale_ts(packet_.get(), codec_->time_base, stream_->time_base);
      packet_->stream_index = stream_->index;
      check(l_.av_interleaved_write_frame(output_.get(), packet_.get()));
      file_.check();
    }
  }

  /// Throws for a negative result.
  void check(int status) const {
    if (status >= 0) return;
    file_.check();
    fail("cannot write {}: frame {}: {}", name_, count_, ffmpeg_reason(status));
  }

  const FfmpegLibraries& l_ = ffmpeg();
  std::string name_;
  YuvLayout layout_;
  RgbToYuv to_yuv_;
  AvOutput output_;
  OutputFile file_;
  AvCodec codec_;
  AvPacket packet_;
  AvFrame frame_;
  AVStream* stream_ = nullptr;
  std::int64_t count_ = 0;
};

}  // namespace

std::unique_ptr<VideoWriter> open_ffmpeg_writer(const std::string& name, const VideoFormat& format,
                                                const VideoWriteOptions& options) {
  if (name == "-" || std::filesystem::is_fifo(name))
    fail(
        "{} cannot be one of FFmpeg's containers, which are filled in at their begin when they end; expected a file, "
        "or "
        "y4m or rgb for a pipe",
        name == "-" ? "standard output" : name);
  check_options(options);
  return std::make_unique<FfmpegWriter>(name, format, options);
}

}  // namespace headroom
