#include "media/video/test_video.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numbers>
#include <optional>

#include "base/error.hpp"
#include "media/video/made_scene.hpp"

namespace headroom {
namespace {

constexpr std::string_view kTest = "test:", kScene = "scene:", kNull = "null:";
constexpr std::uint32_t kSceneSeed = 5;
constexpr double kSceneNoise = 0.03;
constexpr int kBits = 24;                 // of a frame's number
constexpr int kFramesAround = 120;        // frames per circle of the disc
constexpr int kMostVideoPixels = 16'384;  // along a side
constexpr std::int64_t kForever = -1;
constexpr std::array<std::array<std::uint8_t, 3>, 8> kBars = {{{235, 235, 235},
                                                               {230, 220, 30},
                                                               {30, 210, 210},
                                                               {40, 200, 50},
                                                               {210, 50, 200},
                                                               {215, 45, 40},
                                                               {40, 50, 215},
                                                               {25, 25, 25}}};

/// Rows at the lower edge that hold the number.
int number_rows(const VideoFormat& format) { return std::max(format.height / 16, 1); }
int bit_begin(const VideoFormat& format, int bit) { return format.width * bit / kBits; }

std::uint8_t* pixel(const VideoFormat& format, std::span<std::uint8_t> rgb, int row, int column) {
  return rgb.data() + std::size_t{3} * (static_cast<std::size_t>(row) * static_cast<std::size_t>(format.width) +
                                        static_cast<std::size_t>(column));
}

template <class Number>
bool take_number(std::string_view& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}
bool take(std::string_view& text, char expected) {
  if (text.empty() || text.front() != expected) return false;
  text.remove_prefix(1);
  return true;
}

using DrawFrame = void (*)(const VideoFormat& format, std::int64_t number, std::span<std::uint8_t> rgb);

void draw_scene_frame(const VideoFormat& format, std::int64_t number, std::span<std::uint8_t> rgb) {
  const Image scene = draw_scene(kSceneSeed, number, format.width);
  std::ranges::copy(add_camera_noise(scene, kSceneNoise, kSceneSeed, number).pixels, rgb.begin());
}

class TestVideo final : public VideoReader {
 public:
  TestVideo(const VideoFormat& format, std::int64_t frames, DrawFrame draw)
      : format_(format), frames_(frames), draw_(draw) {}
  [[nodiscard]] const VideoFormat& format() const override { return format_; }
  [[nodiscard]] bool read(std::span<std::uint8_t> rgb) override {
    if (next_ == frames_) return false;
    draw_(format_, next_++, rgb);
    return true;
  }

 private:
  VideoFormat format_;
  std::int64_t frames_, next_ = 0;
  DrawFrame draw_;
};

class NullVideo final : public VideoWriter {
 public:
  void write(std::span<const std::uint8_t> /*rgb*/) override {}
  void finish() override {}
};

}  // namespace

bool is_test_video(std::string_view name) { return name.starts_with(kTest) || name.starts_with(kScene); }
bool is_null_video(std::string_view name) { return name == kNull; }

std::unique_ptr<VideoReader> open_test_video(const std::string& name) {
  VideoFormat format;
  std::int64_t frames = kForever;
  const bool is_scene = name.starts_with(kScene);
  std::string_view text = std::string_view(name).substr((is_scene ? kScene : kTest).size());
  bool is_known = take_number(text, format.width) && take(text, 'x') && take_number(text, format.height) &&
                  take(text, '@') && take_number(text, format.rate.numerator);
  if (is_known && !text.empty()) is_known = take(text, ':') && take_number(text, frames) && frames >= 1;
  is_known = is_known && text.empty() && format.width >= 1 && format.width <= kMostVideoPixels && format.height >= 1 &&
             format.height <= kMostVideoPixels && format.rate.numerator >= 1 && format.rate.numerator <= 1'000'000;
  if (!is_known)
    fail_usage("{}: expected {}WIDTHxHEIGHT@FPS:FRAMES, such as {}", name, is_scene ? kScene : kTest,
               is_scene ? "scene:64x64@25:100" : "test:512x512@60:1000");
  if (is_scene && format.width != format.height) fail_usage("{}: a scene is square, as in scene:64x64@25:100", name);
  return std::make_unique<TestVideo>(format, frames, is_scene ? draw_scene_frame : draw_test_frame);
}

std::unique_ptr<VideoWriter> make_null_video() { return std::make_unique<NullVideo>(); }

void draw_test_frame(const VideoFormat& format, std::int64_t number, std::span<std::uint8_t> rgb) {
  HR_CHECK_EQ(rgb.size(), format.frame_bytes());
  const int width = format.width, height = format.height;
  const int shift = static_cast<int>(number % width);
  const double angle = 2 * std::numbers::pi * static_cast<double>(number % kFramesAround) / kFramesAround;
  const double x = width * (0.5 + 0.3 * std::cos(angle)), y = height * (0.5 + 0.3 * std::sin(angle));
  const double radius = 0.12 * std::min(width, height);
  for (int row = 0; row < height; ++row)
    for (int column = 0; column < width; ++column) {
      const auto bar = static_cast<std::size_t>((column + shift) % width * 8 / width);
      const bool in_disc = (row - y) * (row - y) + (column - x) * (column - x) < radius * radius;
      const int darker = 64 * row / height;
      std::uint8_t* const at = pixel(format, rgb, row, column);
      for (std::size_t channel = 0; channel < 3; ++channel) {
        const int colour = in_disc ? 255 - kBars[bar][channel] : kBars[bar][channel];
        at[channel] = static_cast<std::uint8_t>(std::max(colour - darker, 0));
      }
    }
  for (int row = height - number_rows(format); row < height; ++row)
    for (int bit = 0; bit < kBits; ++bit) {
      const bool is_set = ((number >> (kBits - 1 - bit)) & 1) != 0;
      for (int column = bit_begin(format, bit); column < bit_begin(format, bit + 1); ++column)
        std::fill_n(pixel(format, rgb, row, column), 3, static_cast<std::uint8_t>(is_set ? 255 : 0));
    }
}

std::int64_t number_of_test_frame(const VideoFormat& format, std::span<const std::uint8_t> rgb) {
  HR_CHECK_EQ(rgb.size(), format.frame_bytes());
  std::int64_t number = 0;
  for (int bit = 0; bit < kBits; ++bit) {
    int sum = 0, count = 0;
    for (int row = format.height - number_rows(format); row < format.height; ++row)
      for (int column = bit_begin(format, bit); column < bit_begin(format, bit + 1); ++column)
        for (int channel = 0; channel < 3; ++channel, ++count)
          sum += rgb[static_cast<std::size_t>(3 * (row * format.width + column) + channel)];
    number = 2 * number + (2 * sum > 255 * count ? 1 : 0);
  }
  return number;
}

}  // namespace headroom
