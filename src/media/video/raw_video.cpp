#include "media/video/raw_video.hpp"

#include <cstdint>
#include <span>

#include "base/error.hpp"
#include "media/byte_stream.hpp"

namespace headroom {
namespace {

class RawReader final : public VideoReader {
 public:
  RawReader(const std::string& name, const VideoFormat& format) : stream_(name), format_(format) {}

  [[nodiscard]] const VideoFormat& format() const override { return format_; }

  [[nodiscard]] bool read(std::span<std::uint8_t> rgb) override {
    HR_CHECK_EQ(rgb.size(), format_.frame_bytes());
    const std::size_t count = stream_.read(rgb);
    if (count == 0) return false;
    if (count < rgb.size())
      fail("{} ends in the middle of frame {}: {} of {} bytes came, {} by {} pixels of 3 bytes were expected",
           stream_.name(), index_, count, rgb.size(), format_.width, format_.height);
    ++index_;
    return true;
  }

 private:
  InputStream stream_;
  VideoFormat format_;
  std::uint64_t index_ = 0;
};

class RawWriter final : public VideoWriter {
 public:
  explicit RawWriter(const std::string& name) : stream_(name) {}
  void write(std::span<const std::uint8_t> rgb) override { stream_.write(rgb); }
  void finish() override { stream_.finish(); }

 private:
  OutputStream stream_;
};

}  // namespace

std::unique_ptr<VideoReader> open_raw_reader(const std::string& name, const VideoFormat& format) {
  return std::make_unique<RawReader>(name, format);
}

std::unique_ptr<VideoWriter> open_raw_writer(const std::string& name) { return std::make_unique<RawWriter>(name); }

}  // namespace headroom
