#include "media/ink.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.hpp"

namespace headroom {
namespace {

constexpr std::array<std::array<double, 3>, 5> kInks = {
    {{0.10, 0.11, 0.23}, {0.35, 0.22, 0.38}, {0.72, 0.36, 0.33}, {0.91, 0.67, 0.43}, {0.97, 0.92, 0.80}}};
constexpr std::array<double, 3> kLuma = {0.299, 0.587, 0.114};
constexpr double kToneSharpness = 10;
constexpr double kSmoothing = 1, kSurround = 2;  // standard deviations in pixels
constexpr double kContourAt = 0.03, kContourWidth = 0.012, kContourInk = 0.85;
constexpr double kBrightest = 255;

/// One value per pixel, [height, width].
struct Plane {
  int width = 0, height = 0;
  std::vector<double> values;

  [[nodiscard]] double at(int x, int y) const {
    return values[static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x)];
  }
};

Plane luma_of(const Image& image) {
  Plane plane{.width = image.width, .height = image.height, .values = {}};
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
    double luma = 0;
    for (std::size_t c = 0; c < 3; ++c) luma += kLuma[c] * (image.pixels[i + c] / kBrightest);
    plane.values.push_back(luma);
  }
  return plane;
}

/// A Gaussian of three standard deviations to both sides; the border pixels are replicated.
Plane blurred(const Plane& plane, double deviation) {
  const int reach = static_cast<int>(std::ceil(3 * deviation));
  std::vector<double> weights;
  double sum = 0;
  for (int i = -reach; i <= reach; ++i) {
    weights.push_back(std::exp(-i * i / (2 * deviation * deviation)));
    sum += weights.back();
  }
  const auto along = [&](const Plane& from, int dx, int dy) {
    Plane to{.width = from.width, .height = from.height, .values = {}};
    for (int y = 0; y < from.height; ++y)
      for (int x = 0; x < from.width; ++x) {
        double value = 0;
        for (int i = -reach; i <= reach; ++i)
          value += weights[static_cast<std::size_t>(i + reach)] / sum *
                   from.at(std::clamp(x + i * dx, 0, from.width - 1), std::clamp(y + i * dy, 0, from.height - 1));
        to.values.push_back(value);
      }
    return to;
  };
  return along(along(plane, 1, 0), 0, 1);
}

}  // namespace

Image print_in_ink(const Image& image) {
  check_image(image);
  HR_CHECK_EQ(image.channels, 3);
  const Plane luma = luma_of(image);
  const Plane smooth = blurred(luma, kSmoothing), surround = blurred(luma, kSurround);
  Image print = make_image(image.width, image.height, 3);
  for (std::size_t i = 0; i < smooth.values.size(); ++i) {
    const double height = std::clamp(smooth.values[i], 0.0, 1.0) * (kInks.size() - 1);
    const auto tone = std::min(static_cast<std::size_t>(height), kInks.size() - 2);
    const double rise = 0.5 + 0.5 * std::tanh(kToneSharpness * (height - static_cast<double>(tone) - 0.5)) /
                                  std::tanh(kToneSharpness / 2);
    const double edge = (surround.values[i] - smooth.values[i] - kContourAt) / kContourWidth;
    const double contour = kContourInk / (1 + std::exp(-edge));
    for (std::size_t c = 0; c < 3; ++c) {
      const double printed = std::lerp(kInks[tone][c], kInks[tone + 1][c], rise);
      print.pixels[3 * i + c] =
          static_cast<std::uint8_t>(std::nearbyint(kBrightest * std::lerp(printed, kInks[0][c], contour)));
    }
  }
  return print;
}

}  // namespace headroom
