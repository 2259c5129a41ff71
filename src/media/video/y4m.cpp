#include "media/video/y4m.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text/printable.hpp"
#include "media/byte_stream.hpp"
#include "media/video/video_limits.hpp"

namespace headroom {
namespace {

constexpr std::string_view kSignature = "YUV4MPEG2";
constexpr std::string_view kFrame = "FRAME";
/// ffmpeg writes at most 80, and comments are rare.
constexpr std::size_t kMostLineBytes = 1000;

constexpr std::pair<std::string_view, Chroma> kChromas[] = {
    {"420jpeg", Chroma::k420Center},   {"420", Chroma::k420Center}, {"420mpeg2", Chroma::k420Left},
    {"420paldv", Chroma::k420TopLeft}, {"422", Chroma::k422},       {"444", Chroma::k444},
    {"mono", Chroma::kNone},
};

/// The parsed header, before validation.
struct Y4mHeader {
  VideoFormat format;
  Chroma chroma = Chroma::k420Center;
  ColorRange range = ColorRange::kLimited;
};

class HeaderParser {
 public:
  explicit HeaderParser(std::string_view name) : name_(name) {}

  [[nodiscard]] Y4mHeader parse(std::string_view line) {
    line.remove_prefix(kSignature.size());
    while (!line.empty()) {
      const std::string_view field = line.substr(0, line.find(' '));
      line.remove_prefix(std::min(line.size(), field.size() + 1));
      if (!field.empty()) take(field[0], field.substr(1));
    }
    if (header_.format.width == 0 || header_.format.height == 0)
      fail("{} has no width or no height in its header", name_);
    check_video_format(name_, header_.format);
    return header_;
  }

 private:
  void take(char key, std::string_view value) {
    if (key == 'W') header_.format.width = number(key, value);
    if (key == 'H') header_.format.height = number(key, value);
    if (key == 'F') take_rate(value);
    if (key == 'I' && value != "p" && value != "?")
      fail("{} is interlaced (I{}); expected whole frames: ffmpeg's filter yadif makes them", name_,
           printable_name(value));
    if (key == 'C') take_chroma(value);
    if (key == 'X' && value == "COLORRANGE=FULL") header_.range = ColorRange::kFull;
  }

  [[nodiscard]] int number(char key, std::string_view value) const {
    int parsed = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
    if (error != std::errc() || end != value.data() + value.size() || parsed < 0)
      fail("{} has {}{} in its header, which is no number", name_, key, printable_name(value));
    return parsed;
  }

  void take_rate(std::string_view value) {
    const std::size_t colon = value.find(':');
    if (colon == std::string_view::npos)
      fail("{} has the rate F{}; expected two numbers", name_, printable_name(value));
    const FrameRate rate{number('F', value.substr(0, colon)), number('F', value.substr(colon + 1))};
    header_.format.rate = rate.numerator == 0 || rate.denominator == 0 ? FrameRate{25, 1} : rate;
  }

  void take_chroma(std::string_view value) {
    const auto* const known = std::ranges::find(kChromas, value, &std::pair<std::string_view, Chroma>::first);
    if (known == std::end(kChromas))
      fail(
          "{} has samples of the kind C{}; expected 8 bits: 420jpeg, 420mpeg2, 420paldv, 422, 444 or mono, as ffmpeg "
          "-pix_fmt yuv420p writes",
          name_, printable_name(value));
    header_.chroma = known->second;
  }

  std::string_view name_;
  Y4mHeader header_{.format = {.width = 0, .height = 0, .rate = {25, 1}}};
};

class Y4mReader final : public VideoReader {
 public:
  Y4mReader(const std::string& name, const VideoReadOptions& options)
      : stream_(name), header_(read_header()), layout_(layout_of(options)), to_rgb_(layout_) {
    bytes_ = std::make_unique_for_overwrite<std::uint8_t[]>(layout_.frame_bytes());
  }

  [[nodiscard]] const VideoFormat& format() const override { return header_.format; }

  [[nodiscard]] bool read(std::span<std::uint8_t> rgb) override {
    const std::optional<InputStream::Line> line = stream_.read_line(kMostLineBytes);
    if (!line) return false;
    check_frame_line(*line);
    const std::span<std::uint8_t> frame(bytes_.get(), layout_.frame_bytes());
    const std::size_t count = stream_.read(frame);
    if (count < frame.size())
      fail("{} ends in the middle of frame {}: {} of {} bytes came", stream_.name(), index_, count, frame.size());
    const YuvPlanes<std::uint8_t> p = planes_of(layout_, bytes_.get());
    to_rgb_.convert({{p.planes[0], p.planes[1], p.planes[2]}, p.strides}, rgb);
    ++index_;
    return true;
  }

 private:
  [[nodiscard]] Y4mHeader read_header() {
    const std::optional<InputStream::Line> line = stream_.read_line(kMostLineBytes);
    if (!line) fail("{} is empty; expected a YUV4MPEG2 stream", stream_.name());
    const bool is_y4m = line->text == kSignature || line->text.starts_with(std::string(kSignature) + " ");
    if (!is_y4m)
      fail("{} is no YUV4MPEG2 stream, as ffmpeg -f yuv4mpegpipe writes one: it begins with '{}'", stream_.name(),
           printable_name(std::string_view(line->text).substr(0, kSignature.size())));
    if (!line->is_whole) fail("{} has a header that does not end: {} bytes", stream_.name(), line->text.size());
    return HeaderParser(stream_.name()).parse(line->text);
  }

  [[nodiscard]] YuvLayout layout_of(const VideoReadOptions& options) const {
    const VideoFormat& format = header_.format;
    return {.width = format.width,
            .height = format.height,
            .chroma = header_.chroma,
            .matrix = options.matrix.value_or(usual_matrix(format.width, format.height)),
            .range = options.range.value_or(header_.range)};
  }

  void check_frame_line(const InputStream::Line& line) const {
    const std::string_view text = line.text;
    if (text.starts_with(kSignature))
      fail("{} goes on with another YUV4MPEG2 stream behind frame {}, whose frames may have another size; expected one",
           stream_.name(), index_ - 1);
    if (text != kFrame && !text.starts_with(std::string(kFrame) + " ")) {
      if (!line.is_whole && kFrame.starts_with(text))
        fail("{} ends in the middle of frame {}: {} bytes of its first line came", stream_.name(), index_, text.size());
      fail("{} has '{}' where frame {} begins; expected FRAME", stream_.name(),
           printable_name(text.substr(0, kFrame.size())), index_);
    }
    if (!line.is_whole) fail("{} has a line that does not end before frame {}", stream_.name(), index_);
  }

  InputStream stream_;
  Y4mHeader header_;
  YuvLayout layout_;
  YuvToRgb to_rgb_;
  std::unique_ptr<std::uint8_t[]> bytes_;  // of a frame; not touched before the first frame arrives
  std::uint64_t index_ = 0;
};

class Y4mWriter final : public VideoWriter {
 public:
  Y4mWriter(const std::string& name, const VideoFormat& format, const VideoWriteOptions& options)
      : stream_(name),
        layout_{.width = format.width,
                .height = format.height,
                .chroma = options.full_chroma ? Chroma::k444 : Chroma::k420Center,
                .matrix = options.matrix.value_or(usual_matrix(format.width, format.height)),
                .range = options.range},
        to_yuv_(layout_),
        frame_(kFrame.begin(), kFrame.end()) {
    const std::string header =
        fmt::format("{} W{} H{} F{}:{} Ip A1:1 {} XCOLORRANGE={}\n", kSignature, format.width, format.height,
                    format.rate.numerator, format.rate.denominator, options.full_chroma ? "C444" : "C420jpeg",
                    options.range == ColorRange::kFull ? "FULL" : "LIMITED");
    stream_.write({reinterpret_cast<const std::uint8_t*>(header.data()), header.size()});
    frame_.push_back('\n');
    frame_.resize(frame_.size() + layout_.frame_bytes());
  }

  void write(std::span<const std::uint8_t> rgb) override {
    to_yuv_.convert(rgb, planes_of(layout_, frame_.data() + kFrame.size() + 1));
    stream_.write(frame_);
  }
  void finish() override { stream_.finish(); }

 private:
  OutputStream stream_;
  YuvLayout layout_;
  RgbToYuv to_yuv_;
  std::vector<std::uint8_t> frame_;  // its line and its planes, for a single write
};

}  // namespace

std::unique_ptr<VideoReader> open_y4m_reader(const std::string& name, const VideoReadOptions& options) {
  return std::make_unique<Y4mReader>(name, options);
}

std::unique_ptr<VideoWriter> open_y4m_writer(const std::string& name, const VideoFormat& format,
                                             const VideoWriteOptions& options) {
  return std::make_unique<Y4mWriter>(name, format, options);
}

}  // namespace headroom
