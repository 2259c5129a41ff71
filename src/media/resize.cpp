#include "media/resize.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>

#include "base/error.hpp"

namespace headroom {
namespace {

constexpr double kLobes = 3;
/// A weighted sum of bytes may be negative or above 255, so it needs two bits more than eight, of 32.
constexpr int kFractionBits = 32 - 8 - 2;
constexpr std::int32_t kHalf = 1 << (kFractionBits - 1);

double sinc(double x) { return x == 0 ? 1 : std::sin(x * std::numbers::pi) / (x * std::numbers::pi); }
double lanczos(double x) { return x >= -kLobes && x < kLobes ? sinc(x) * sinc(x / kLobes) : 0; }

/// The filter for one output sample: weights of input samples from `first` on, which add up to 1 before rounding.
struct Window {
  int first = 0;
  std::vector<std::int32_t> weights;  // times 2^kFractionBits
};

std::int32_t fixed_point(double weight) {
  return static_cast<std::int32_t>(weight * (1 << kFractionBits) + (weight < 0 ? -0.5 : 0.5));
}

Window window_at(int index, int from, int to) {
  const double step = static_cast<double>(from) / to;  // in input samples
  const double stretch = std::max(step, 1.0);
  const double reach = kLobes * stretch;
  const double center = (index + 0.5) * step;
  const double low = center - reach + 0.5;  // truncation then rounds to nearest
  const double high = center + reach + 0.5;
  const int first = std::max(0, static_cast<int>(low));
  const int end = std::min(from, static_cast<int>(high));
  std::vector<double> weights;
  double sum = 0;
  for (int i = first; i < end; ++i) {
    weights.push_back(lanczos((i - center + 0.5) * (1.0 / stretch)));
    sum += weights.back();
  }
  Window window{.first = first, .weights = {}};
  for (const double weight : weights) window.weights.push_back(fixed_point(sum == 0 ? weight : weight / sum));
  return window;
}

std::uint8_t to_byte(std::int32_t sum) { return static_cast<std::uint8_t>(std::clamp(sum >> kFractionBits, 0, 255)); }

Image resize_rows(const Image& image, int width) {
  std::vector<Window> windows;
  for (int x = 0; x < width; ++x) windows.push_back(window_at(x, image.width, width));
  Image resized = make_image(width, image.height, image.channels);
  for (int y = 0; y < image.height; ++y) {
    std::uint8_t* to = resized.row(y);
    for (const Window& window : windows)
      for (int c = 0; c < image.channels; ++c) {
        const std::uint8_t* from = image.row(y) + static_cast<std::ptrdiff_t>(window.first) * image.channels + c;
        std::int32_t sum = kHalf;
        for (const std::int32_t weight : window.weights) {
          sum += weight * *from;
          from += image.channels;
        }
        *to++ = to_byte(sum);
      }
  }
  return resized;
}

Image resize_columns(const Image& image, int height) {
  Image resized = make_image(image.width, height, image.channels);
  std::vector<std::int32_t> sums(image.row_bytes());
  for (int y = 0; y < height; ++y) {
    const Window window = window_at(y, image.height, height);
    std::ranges::fill(sums, kHalf);
    for (std::size_t i = 0; i < window.weights.size(); ++i) {
      const std::uint8_t* from = image.row(window.first + static_cast<int>(i));
      for (std::size_t x = 0; x < sums.size(); ++x) sums[x] += window.weights[i] * from[x];
    }
    std::ranges::transform(sums, resized.row(y), to_byte);
  }
  return resized;
}

}  // namespace

Image resize_lanczos(const Image& image, int width, int height) {
  check_image(image);
  HR_CHECK(width >= 1 && height >= 1);
  const Image wide = width == image.width ? image : resize_rows(image, width);
  return height == wide.height ? wide : resize_columns(wide, height);
}

}  // namespace headroom
