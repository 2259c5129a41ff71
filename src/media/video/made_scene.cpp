#include "media/video/made_scene.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/tensors/random.hpp"

namespace headroom {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;
constexpr int kShapes = 5;
constexpr double kHighest = 255;

using Color = std::array<double, 3>;
struct Point {
  double x = 0, y = 0;
};

/// 32 well mixed bits from two integers (the finalizer "lowbias32").
std::uint32_t hashed(std::uint32_t seed, std::uint32_t index) {
  std::uint32_t h = seed * 0x9E3779B1U + index * 0x85EBCA77U;
  h = (h ^ (h >> 16U)) * 0x7FEB352DU;
  h = (h ^ (h >> 15U)) * 0x846CA68BU;
  return h ^ (h >> 16U);
}

/// Consecutive random numbers of a seed, uniform in an interval. Draws are in separate statements, because their
/// order matters.
class Draws {
 public:
  explicit Draws(std::uint32_t seed) : seed_(seed) {}

  double operator()(double low, double high) {
    return static_cast<float>(low + (high - low) * (hashed(seed_, count_++) / 0x1p32));
  }
  Color color() {
    Color color{};
    for (double& part : color) part = (*this)(0.05, 0.95);
    return color;
  }
  /// The seed of a lattice of random numbers created now.
  [[nodiscard]] std::uint32_t lattice() const { return seed_ + count_; }

 private:
  std::uint32_t seed_;
  std::uint32_t count_ = 0;
};

/// Linear motion from a start position.
struct Drift {
  Drift(Draws& draw, double from, double speed) {
    start_ = draw(-from, from);
    speed_ = draw(-speed, speed);
  }
  [[nodiscard]] double at(double t) const { return start_ + speed_ * t; }

 private:
  double start_, speed_;
};

/// Oscillation around a random position, or 0.
struct Wave {
  Wave(Draws& draw, double around, double least, double most, double slow, double fast) {
    if (around != 0) middle_ = draw(-around, around);
    size_ = draw(least, most);
    speed_ = draw(slow, fast);
    phase_ = draw(0, kTurn);
  }
  [[nodiscard]] double at(double t) const { return middle_ + size_ * std::sin(speed_ * t + phase_); }

 private:
  double middle_ = 0, size_, speed_, phase_;
};

Point rotated(Point p, double angle) {
  const double c = std::cos(angle), s = std::sin(angle);
  return {.x = c * p.x - s * p.y, .y = s * p.x + c * p.y};
}

Color blend(const Color& from, const Color& to, double share) {
  Color color{};
  for (std::size_t i = 0; i < color.size(); ++i) color[i] = from[i] + (to[i] - from[i]) * share;
  return color;
}

/// Smoothly interpolated random numbers of a lattice.
double value_noise(Point p, std::uint32_t seed) {
  const auto at = [&](double x, double y) {
    const auto column = static_cast<std::uint32_t>(static_cast<std::int64_t>(x)) & 0xFFFFU;
    const auto row = static_cast<std::uint32_t>(static_cast<std::int64_t>(y)) & 0xFFFFU;
    return (hashed(seed, row << 16U | column) >> 8U) / 0x1p24;
  };
  const auto smooth = [](double f) { return f * f * (3 - 2 * f); };
  const double left = std::floor(p.x), top = std::floor(p.y);
  const double fx = smooth(p.x - left), fy = smooth(p.y - top);
  const double upper = std::lerp(at(left, top), at(left + 1, top), fx);
  const double lower = std::lerp(at(left, top + 1), at(left + 1, top + 1), fx);
  return std::lerp(upper, lower, fy);
}

/// Uniform, striped, chequered or noisy, between two colours.
class Texture {
 public:
  explicit Texture(Draws& draw) {
    kind_ = static_cast<int>(draw(0, 4));
    angle_ = draw(0, kTurn);
    frequency_ = draw(0.5, 3);
    phase_ = draw(0, kTurn);
    checks_ = draw(0.7, 3);
    fineness_ = draw(1, 6);
    lattice_ = draw.lattice();
    contrast_ = draw(0.2, 1);
    first_ = draw.color();
    second_ = draw.color();
  }

  [[nodiscard]] Color at(Point p) const { return blend(first_, second_, 0.5 + contrast_ * (pattern(p) - 0.5)); }

 private:
  [[nodiscard]] double pattern(Point p) const {
    const double along = rotated(p, angle_).x;
    switch (kind_) {
      case 0:
        return 0.5 + 0.25 * std::clamp(along, -2.0, 2.0);
      case 1:
        return 0.5 + 0.5 * std::sin(kTurn * frequency_ * along + phase_);
      case 2: {
        const double size = std::numbers::pi * checks_;
        return 0.5 + 0.5 * std::tanh(4 * std::sin(size * p.x) * std::sin(size * p.y));
      }
      default: {
        const Point fine{.x = fineness_ * p.x, .y = fineness_ * p.y};
        return 0.65 * value_noise(fine, lattice_) + 0.35 * value_noise({2 * fine.x, 2 * fine.y}, lattice_ + 1);
      }
    }
  }

  int kind_;
  double angle_, frequency_, phase_, checks_, fineness_, contrast_;
  std::uint32_t lattice_;
  Color first_, second_;
};

/// A petalled disc or a rounded box, at its position in a frame.
class MovingShape {
 public:
  explicit MovingShape(Draws& draw)
      : x_(draw, 0.9, 0.1, 0.7, 0.02, 0.1),
        y_(draw, 0.9, 0.1, 0.7, 0.02, 0.1),
        angle_(draw, std::numbers::pi, 0.05),
        radius_(draw(0.15, 0.6)),
        aspect_(draw(0.7, 1.5)),
        petals_(std::floor(draw(0, 7))),
        bulge_(draw(0, 0.25)),
        is_box_(draw(0, 1) < 0.4F),
        texture_(draw) {}

  void paint(Color& color, Point p, double t, int side) const {
    p = rotated({.x = p.x - x_.at(t), .y = p.y - y_.at(t)}, angle_.at(t));
    p = {.x = p.x / radius_ * aspect_, .y = p.y / radius_};
    const double round = std::hypot(p.x, p.y);
    const double far = is_box_ ? std::pow(std::pow(p.x, 6) + std::pow(p.y, 6), 1.0 / 6) : round;
    const double distance = far - 1 - bulge_ * std::cos(petals_ * std::atan2(p.y, p.x));
    const double cover = std::clamp(0.5 - distance * radius_ * side / 3, 0.0, 1.0);
    if (cover == 0) return;
    Color own = texture_.at(p);
    for (double& part : own) part *= 1 - 0.25 * std::clamp(p.y, -1.0, 1.0);
    color = blend(color, own, cover);
  }

 private:
  Wave x_, y_;
  Drift angle_;
  double radius_, aspect_, petals_, bulge_;
  bool is_box_;
  Texture texture_;
};

class Scene {
 public:
  explicit Scene(std::uint32_t seed)
      : draw_(seed),
        angle_(draw_, 0.5, 0.01),
        zoom_(draw_, 0.4, 0, 0.3, 0.02, 0.1),
        x_(draw_, 4, 0.03),
        y_(draw_, 4, 0.03),
        ground_(draw_),
        shapes_{MovingShape(draw_), MovingShape(draw_), MovingShape(draw_), MovingShape(draw_), MovingShape(draw_)},
        light_(draw_, 0, 0, 0.12, 0.02, 0.15) {}

  /// The colour, in [0, 1], at a position of the frame, [-1, 1] in both directions with `side` pixels each.
  [[nodiscard]] Color at(Point p, double t, int side) const {
    const Point far = rotated(p, angle_.at(t));
    const double zoom = std::exp(zoom_.at(t));
    Color color = ground_.at({.x = zoom * far.x + x_.at(t), .y = zoom * far.y + y_.at(t)});
    for (const MovingShape& shape : shapes_) shape.paint(color, p, t, side);
    for (double& part : color) part = std::clamp(part * (1 + light_.at(t)), 0.0, 1.0);
    return color;
  }

 private:
  Draws draw_;
  Drift angle_;
  Wave zoom_;
  Drift x_, y_;
  Texture ground_;
  std::array<MovingShape, kShapes> shapes_;
  Wave light_;
};

}  // namespace

Image draw_scene(std::uint32_t seed, std::int64_t frame, int side) {
  const Scene scene(seed);
  Image image = make_image(side, side, 3);
  std::uint8_t* pixel = image.pixels.data();
  const auto place = [&](int i) { return (i + 0.5) / side * 2 - 1; };
  for (int y = 0; y < side; ++y)
    for (int x = 0; x < side; ++x)
      for (const double part : scene.at({.x = place(x), .y = place(y)}, static_cast<double>(frame), side))
        *pixel++ = static_cast<std::uint8_t>(std::nearbyint(part * kHighest));
  return image;
}

Image add_camera_noise(const Image& image, double deviation, std::uint64_t seed, std::int64_t frame) {
  std::vector<float> noise(image.pixels.size());
  fill_normal(noise, seed, static_cast<std::uint64_t>(frame));
  Image seen = image;
  for (std::size_t i = 0; i < noise.size(); ++i)
    seen.pixels[i] = static_cast<std::uint8_t>(std::nearbyint(
        std::clamp(image.pixels[i] + kHighest * deviation * static_cast<double>(noise[i]), 0.0, kHighest)));
  return seen;
}

}  // namespace headroom
