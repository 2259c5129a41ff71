#include "measure/quality/flip.hpp"

#include <Eigen/Core>
#include <Eigen/LU>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numbers>
#include <vector>

#include "base/error.hpp"

namespace headroom {
namespace {
namespace flip_metric {

constexpr double kPi = std::numbers::pi;

// Section 4.1: sums of Gaussians a * sqrt(pi / b) * exp(-pi^2 x^2 / b), x in degrees, that model the contrast
// sensitivity of each opponent channel (table 1 of the paper).
struct Gaussian {
  double a, b;
};
constexpr Gaussian kAchromatic{1, 0.0047}, kRedGreen{1, 0.0053}, kBlueYellowNarrow{34.1, 0.04},
    kBlueYellowWide{13.5, 0.025};

constexpr double kColorExponent = 0.7;    // q_c
constexpr double kColorKnee = 0.4;        // p_c: share of the largest difference below which errors are stretched
constexpr double kColorKneeError = 0.95;  // p_t: the error there
constexpr double kFeatureWidth = 0.082;   // w, in degrees
constexpr double kFeatureExponent = 0.5;  // q_f

/// One channel, row-major.
struct Plane {
  std::int64_t height = 0, width = 0;
  std::vector<float> values;

  [[nodiscard]] float& at(std::int64_t y, std::int64_t x) { return values[static_cast<std::size_t>(y * width + x)]; }
};
using Picture = std::array<Plane, 3>;
using Vector3 = Eigen::Vector3d;
using Matrix3 = Eigen::Matrix3d;
using Taps = std::vector<float>;  // odd; the middle one is of the pixel itself

/// CIE XYZ of linear sRGB, from the chromaticities of its primaries and of its white D65 (IEC 61966-2-1).
Matrix3 xyz_of_rgb() {
  const auto color = [](double x, double y) { return Vector3(x / y, 1, (1 - x - y) / y); };
  Matrix3 primaries;
  primaries << color(0.64, 0.33), color(0.30, 0.60), color(0.15, 0.06);
  const Vector3 white = color(0.3127, 0.3290);
  return primaries * Vector3(primaries.inverse() * white).asDiagonal();
}

struct Space {
  Matrix3 to_xyz = xyz_of_rgb();
  Matrix3 to_rgb = to_xyz.inverse();
  Vector3 white = to_xyz * Vector3::Ones();
};

double linear_of_srgb(double value) {
  return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
}

/// Opponent channels, linear in XYZ: achromatic, red-green, blue-yellow.
Vector3 opponent_of(const Space& space, const Vector3& rgb) {
  const Vector3 xyz = (space.to_xyz * rgb).cwiseQuotient(space.white);
  return {116 * xyz.y() - 16, 500 * (xyz.x() - xyz.y()), 200 * (xyz.y() - xyz.z())};
}
Vector3 rgb_of_opponent(const Space& space, const Vector3& opponent) {
  const double y = (opponent[0] + 16) / 116;
  const Vector3 xyz(y + opponent[1] / 500, y, y - opponent[2] / 200);
  return space.to_rgb * xyz.cwiseProduct(space.white);
}

/// CIE L*a*b* with a and b scaled by the Hunt effect: colors of dark pixels look less colorful.
Vector3 hunt_lab_of(const Space& space, const Vector3& rgb) {
  constexpr double kDelta = 6.0 / 29;
  const auto f = [](double t) {
    return t > kDelta * kDelta * kDelta ? std::cbrt(t) : t / (3 * kDelta * kDelta) + 4.0 / 29;
  };
  const Vector3 xyz = (space.to_xyz * rgb).cwiseQuotient(space.white).unaryExpr(f);
  const double lightness = 116 * xyz.y() - 16;
  return {lightness, 0.01 * lightness * 500 * (xyz.x() - xyz.y()), 0.01 * lightness * 200 * (xyz.y() - xyz.z())};
}

/// HyAB (Abasi, Amani Tehran, Fairchild, "Distance metrics for very large color differences", 2020).
double hyab(const Vector3& a, const Vector3& b) { return std::abs(a[0] - b[0]) + std::hypot(a[1] - b[1], a[2] - b[2]); }

template <class Body>
void each_pixel(const Picture& from, Picture& to, const Body& body) {
  for (Plane& plane : to)
    plane = {.height = from[0].height, .width = from[0].width, .values = std::vector<float>(from[0].values.size())};
  for (std::size_t i = 0; i < from[0].values.size(); ++i) {
    const Vector3 made = body(Vector3(from[0].values[i], from[1].values[i], from[2].values[i]));
    for (std::size_t c = 0; c < 3; ++c) to[c].values[i] = static_cast<float>(made[static_cast<Eigen::Index>(c)]);
  }
}

/// A separable filter; beyond its edges a picture goes on as it ends.
Plane filter(const Plane& plane, const Taps& across, const Taps& down) {
  const std::int64_t radius_x = std::ssize(across) / 2, radius_y = std::ssize(down) / 2;
  Plane rows{.height = plane.height, .width = plane.width, .values = std::vector<float>(plane.values.size())};
  std::vector<float> padded(static_cast<std::size_t>(plane.width + 2 * radius_x));
  for (std::int64_t y = 0; y < plane.height; ++y) {
    const float* const row = plane.values.data() + y * plane.width;
    for (std::int64_t x = 0; x < std::ssize(padded); ++x)
      padded[static_cast<std::size_t>(x)] = row[std::clamp<std::int64_t>(x - radius_x, 0, plane.width - 1)];
    float* const out = rows.values.data() + y * plane.width;
    for (std::size_t k = 0; k < across.size(); ++k)
      for (std::int64_t x = 0; x < plane.width; ++x) out[x] += across[k] * padded[k + static_cast<std::size_t>(x)];
  }
  Plane made{.height = plane.height, .width = plane.width, .values = std::vector<float>(plane.values.size())};
  for (std::int64_t y = 0; y < plane.height; ++y)
    for (std::int64_t k = 0; k < std::ssize(down); ++k) {
      const std::int64_t from = std::clamp<std::int64_t>(y + k - radius_y, 0, plane.height - 1);
      const float weight = down[static_cast<std::size_t>(k)];
      for (std::int64_t x = 0; x < plane.width; ++x) made.at(y, x) += weight * rows.at(from, x);
    }
  return made;
}

Taps make_taps(std::int64_t radius, const std::function<double(double)>& weight) {
  Taps taps;
  for (std::int64_t i = -radius; i <= radius; ++i) taps.push_back(static_cast<float>(weight(static_cast<double>(i))));
  return taps;
}

double sum_of(const Taps& taps) {
  double sum = 0;
  for (const float tap : taps) sum += tap;
  return sum;
}

/// Positive taps that add up to 1, negative ones to -1.
void normalize_signs(Taps& taps) {
  double positive = 0, negative = 0;
  for (const float tap : taps) (tap > 0 ? positive : negative) += std::abs(tap);
  for (float& tap : taps) tap = static_cast<float>(tap / (tap > 0 ? positive : negative));
}

/// The visible part of a channel at the viewing distance. Each Gaussian contributes its share of the whole filter's
/// sum, which is 1.
Plane see_channel(const Plane& channel, std::span<const Gaussian> gaussians, double pixels_per_degree) {
  const auto radius =
      static_cast<std::int64_t>(std::ceil(3 * std::sqrt(kBlueYellowNarrow.b / (2 * kPi * kPi)) * pixels_per_degree));
  std::vector<Taps> all;
  double whole = 0;
  for (const Gaussian& gaussian : gaussians) {
    all.push_back(make_taps(radius, [&](double i) {
      const double x = i / pixels_per_degree;
      return std::exp(-kPi * kPi * x * x / gaussian.b);
    }));
    whole += gaussian.a * std::sqrt(kPi / gaussian.b) * sum_of(all.back()) * sum_of(all.back());
  }
  Plane seen{
      .height = channel.height, .width = channel.width, .values = std::vector<float>(channel.values.size(), 0.0F)};
  for (std::size_t g = 0; g < gaussians.size(); ++g) {
    Taps down = all[g];
    for (float& tap : down) tap = static_cast<float>(tap * gaussians[g].a * std::sqrt(kPi / gaussians[g].b) / whole);
    const Plane part = filter(channel, all[g], down);
    std::ranges::transform(part.values, seen.values, seen.values.begin(), std::plus<>());
  }
  return seen;
}

/// The visible part of a picture, in Hunt-adjusted L*a*b*.
Picture see_colors(const Space& space, const Picture& opponent, double pixels_per_degree) {
  const std::array blue_yellow = {kBlueYellowNarrow, kBlueYellowWide};
  const Picture filtered = {see_channel(opponent[0], {&kAchromatic, 1}, pixels_per_degree),
                            see_channel(opponent[1], {&kRedGreen, 1}, pixels_per_degree),
                            see_channel(opponent[2], blue_yellow, pixels_per_degree)};
  Picture lab;
  each_pixel(filtered, lab, [&](const Vector3& seen) {
    return hunt_lab_of(space, rgb_of_opponent(space, seen).cwiseMax(0).cwiseMin(1));
  });
  return lab;
}

/// Magnitudes of the edges and points of a picture's lightness (section 4.2): of the first and second derivatives.
struct Features {
  Plane edges, points;
};

Features find_features(const Plane& achromatic, double pixels_per_degree) {
  const double deviation = 0.5 * kFeatureWidth * pixels_per_degree;
  const auto radius = static_cast<std::int64_t>(std::ceil(3 * deviation));
  const auto bell = [&](double x) { return std::exp(-x * x / (2 * deviation * deviation)); };
  Taps smooth = make_taps(radius, bell);
  const double sum = sum_of(smooth);
  for (float& tap : smooth) tap = static_cast<float>(tap / sum);
  Taps first = make_taps(radius, [&](double x) { return -x * bell(x); });
  Taps second = make_taps(radius, [&](double x) { return (x * x / (deviation * deviation) - 1) * bell(x); });
  normalize_signs(first);
  normalize_signs(second);

  Plane lightness = achromatic;
  for (float& value : lightness.values) value = (value + 16) / 116;
  const auto magnitude = [&](const Taps& derivative) {
    Plane across = filter(lightness, derivative, smooth);
    const Plane down = filter(lightness, smooth, derivative);
    std::ranges::transform(across.values, down.values, across.values.begin(),
                           [](float a, float b) { return std::hypot(a, b); });
    return across;
  };
  return {.edges = magnitude(first), .points = magnitude(second)};
}

/// Linear light in opponent channels, of [channels, height, width] in [-1, 1].
Picture opponent_picture(const Space& space, std::span<const float> values, std::int64_t channels, std::int64_t height,
                         std::int64_t width) {
  Picture rgb;
  const auto pixels = static_cast<std::size_t>(height * width);
  for (std::size_t c = 0; c < 3; ++c) {
    rgb[c] = {.height = height, .width = width, .values = std::vector<float>(pixels)};
    const std::span<const float> from = values.subspan((channels == 1 ? 0 : c) * pixels, pixels);
    std::ranges::transform(from, rgb[c].values.begin(), [](float value) {
      if (!std::isfinite(value)) fail("a picture holds {}; only finite values can be judged", value);
      return static_cast<float>(linear_of_srgb((std::clamp(value, -1.0F, 1.0F) + 1) / 2));
    });
  }
  Picture opponent;
  each_pixel(rgb, opponent, [&](const Vector3& color) { return opponent_of(space, color); });
  return opponent;
}

/// The color difference of a pixel, 0 to 1: differences up to the knee are stretched, those beyond compressed.
double color_error(double distance, double largest) {
  const double knee = kColorKnee * largest, difference = std::pow(distance, kColorExponent);
  if (difference < knee) return kColorKneeError / knee * difference;
  return kColorKneeError + (difference - knee) / (largest - knee) * (1 - kColorKneeError);
}

}  // namespace flip_metric
}  // namespace

double flip(std::span<const float> reference, std::span<const float> picture, std::int64_t channels,
            std::int64_t height, std::int64_t width, double pixels_per_degree) {
  using namespace flip_metric;
  if (channels != 1 && channels != 3)
    fail("pictures of {} channels cannot be judged by FLIP, expected 1 or 3", channels);
  const std::int64_t elements = channels * height * width;
  if (elements < 1 || std::ssize(reference) != elements || std::ssize(picture) != elements)
    fail("pictures of {} and {} elements, expected {} of {}x{} and {} channels", reference.size(), picture.size(),
         elements, width, height, channels);
  if (!(pixels_per_degree > 0) || !std::isfinite(pixels_per_degree))
    fail("{} pixels per degree were given for FLIP, expected more than 0", pixels_per_degree);
  const Space space;
  const Picture first = opponent_picture(space, reference, channels, height, width);
  const Picture second = opponent_picture(space, picture, channels, height, width);
  const Picture seen_first = see_colors(space, first, pixels_per_degree);
  const Picture seen_second = see_colors(space, second, pixels_per_degree);
  const Features features_first = find_features(first[0], pixels_per_degree);
  const Features features_second = find_features(second[0], pixels_per_degree);
  const double largest = std::pow(hyab(hunt_lab_of(space, {0, 1, 0}), hunt_lab_of(space, {0, 0, 1})), kColorExponent);
  double sum = 0;
  for (std::size_t i = 0; i < first[0].values.size(); ++i) {
    const auto lab = [i](const Picture& seen) {
      return Vector3(seen[0].values[i], seen[1].values[i], seen[2].values[i]);
    };
    const double color = color_error(hyab(lab(seen_first), lab(seen_second)), largest);
    const double edge = std::abs(features_first.edges.values[i] - features_second.edges.values[i]);
    const double point = std::abs(features_first.points.values[i] - features_second.points.values[i]);
    const double feature = std::pow(std::max(edge, point) / std::numbers::sqrt2, kFeatureExponent);
    sum += std::pow(color, 1 - std::min(feature, 1.0));
  }
  return sum / static_cast<double>(first[0].values.size());
}

}  // namespace headroom
