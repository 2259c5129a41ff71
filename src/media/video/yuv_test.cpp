#include "media/video/yuv.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/tensors/random.hpp"
#include "hwy/highway.h"

namespace headroom {
namespace {

using Samples = std::vector<std::uint8_t>;
using testing::ElementsAre;

constexpr Chroma kChromas[] = {Chroma::kNone,       Chroma::k420Center, Chroma::k420Left,
                               Chroma::k420TopLeft, Chroma::k422,       Chroma::k444};
constexpr ColorMatrix kMatrices[] = {ColorMatrix::kBt601, ColorMatrix::kBt709};
constexpr ColorRange kRanges[] = {ColorRange::kLimited, ColorRange::kFull};

std::string name_of(const YuvLayout& layout) {
  return std::to_string(layout.width) + " by " + std::to_string(layout.height) + ", chroma " +
         std::to_string(static_cast<int>(layout.chroma)) + ", matrix " +
         std::to_string(static_cast<int>(layout.matrix)) + ", range " + std::to_string(static_cast<int>(layout.range));
}

Samples random_samples(std::size_t count, std::uint64_t seed) {
  std::vector<float> uniform(count);
  fill_uniform(uniform, seed, 0);
  Samples samples(count);
  std::ranges::transform(uniform, samples.begin(), [](float x) { return static_cast<std::uint8_t>(256 * x); });
  return samples;
}

std::size_t rgb_bytes(const YuvLayout& layout) {
  return std::size_t{3} * static_cast<std::size_t>(layout.width) * static_cast<std::size_t>(layout.height);
}

Samples to_rgb(const YuvLayout& layout, Samples frame) {
  const YuvPlanes<std::uint8_t> planes = planes_of(layout, frame.data());
  Samples rgb(rgb_bytes(layout));
  YuvToRgb(layout).convert({{planes.planes[0], planes.planes[1], planes.planes[2]}, planes.strides}, rgb);
  return rgb;
}
Samples to_yuv(const YuvLayout& layout, const Samples& rgb) {
  Samples frame(layout.frame_bytes());
  RgbToYuv(layout).convert(rgb, planes_of(layout, frame.data()));
  return frame;
}

/// Reference conversion by the standards, in double precision.
struct Exact {
  explicit Exact(const YuvLayout& described) : layout(described) {
    if (layout.matrix == ColorMatrix::kBt709) kr = 0.2126, kb = 0.0722;
    if (layout.range == ColorRange::kFull) black = 0, luma_steps = 255, chroma_steps = 255;
  }

  /// A colour difference at a position in samples, with replicated borders.
  [[nodiscard]] double sample(const std::uint8_t* plane, double x, double y) const {
    const int width = layout.chroma_width();
    const int height = layout.chroma_height();
    const auto at = [&](double column, double row) {
      const int c = std::clamp(static_cast<int>(column), 0, width - 1);
      const int r = std::clamp(static_cast<int>(row), 0, height - 1);
      return static_cast<double>(plane[r * width + c]);
    };
    const double left = std::floor(x), top = std::floor(y);
    const double right_share = x - left, lower_share = y - top;
    return (1 - lower_share) * ((1 - right_share) * at(left, top) + right_share * at(left + 1, top)) +
           lower_share * ((1 - right_share) * at(left, top + 1) + right_share * at(left + 1, top + 1));
  }

  [[nodiscard]] std::vector<double> rgb(Samples frame) const {
    const YuvPlanes<std::uint8_t> p = planes_of(layout, frame.data());
    std::vector<double> result;
    for (int y = 0; y < layout.height; ++y)
      for (int x = 0; x < layout.width; ++x) {
        double cb = 0, cr = 0;
        if (layout.chroma != Chroma::kNone) {
          const bool is_halved = layout.chroma != Chroma::k444;
          const bool is_420 = is_halved && layout.chroma != Chroma::k422;
          const double column = layout.chroma == Chroma::k420Center ? x / 2.0 - 0.25 : is_halved ? x / 2.0 : x;
          const double row = !is_420 ? y : layout.chroma == Chroma::k420TopLeft ? y / 2.0 : y / 2.0 - 0.25;
          cb = (sample(p.planes[1], column, row) - 128) / chroma_steps;
          cr = (sample(p.planes[2], column, row) - 128) / chroma_steps;
        }
        const double luma = (p.planes[0][y * layout.width + x] - black) / luma_steps;
        const double red = luma + 2 * (1 - kr) * cr;
        const double blue = luma + 2 * (1 - kb) * cb;
        const double green = (luma - kr * red - kb * blue) / (1 - kr - kb);
        for (const double color : {red, green, blue}) result.push_back(std::clamp(255 * color, 0.0, 255.0));
      }
    return result;
  }

  [[nodiscard]] std::vector<double> yuv(const Samples& rgb) const {
    // red, green and blue, averaged over the pixels of one colour difference sample
    const auto mean = [&](int x, int y) {
      std::vector<double> sum(3);
      const bool is_halved = layout.chroma != Chroma::k444;
      const int weights[3] = {layout.chroma == Chroma::k420Left ? 1 : 0, layout.chroma == Chroma::k420Left ? 2 : 1,
                              is_halved ? 1 : 0};
      double total = 0;
      for (int down = 0; down < (is_halved ? 2 : 1); ++down)
        for (int across = -1; across <= 1; ++across) {
          const int column = std::clamp((is_halved ? 2 * x : x) + across, 0, layout.width - 1);
          const int row = std::min((is_halved ? 2 * y : y) + down, layout.height - 1);
          for (std::size_t c = 0; c < 3; ++c)
            sum[c] += weights[across + 1] * rgb[static_cast<std::size_t>(3 * (row * layout.width + column)) + c];
          total += weights[across + 1];
        }
      for (double& color : sum) color /= total;
      return sum;
    };
    const auto luma = [&](double red, double green, double blue) {
      return kr * red + (1 - kr - kb) * green + kb * blue;
    };
    std::vector<double> result;
    for (std::size_t i = 0; i < rgb.size(); i += 3)
      result.push_back(black + luma_steps / 255 * luma(rgb[i], rgb[i + 1], rgb[i + 2]));
    for (const bool is_red : {false, true})
      for (int y = 0; y < layout.chroma_height(); ++y)
        for (int x = 0; x < layout.chroma_width(); ++x) {
          const std::vector<double> c = mean(x, y);
          const double difference = (c[is_red ? 0 : 2] - luma(c[0], c[1], c[2])) / (2 * (1 - (is_red ? kr : kb)));
          result.push_back(std::clamp(128 + chroma_steps / 255 * difference, 0.0, 255.0));
        }
    return result;
  }

  YuvLayout layout;
  double kr = 0.299, kb = 0.114, black = 16, luma_steps = 219, chroma_steps = 224;
};

double largest_error(const Samples& got, const std::vector<double>& exact) {
  EXPECT_EQ(got.size(), exact.size());
  double error = 0;
  for (std::size_t i = 0; i < got.size(); ++i) error = std::max(error, std::abs(got[i] - exact[i]));
  return error;
}

/// Runs `body` once for each vector unit of this CPU.
template <class Body>
void on_every_vector_unit(const Body& body) {
  const std::int64_t all = hwy::SupportedTargets();
  for (std::int64_t rest = all; rest != 0; rest &= rest - 1) {
    hwy::SetSupportedTargetsForTest(rest & -rest);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body(hwy::TargetName(rest & -rest));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(Yuv, RedIsWhatTheStandardsSay) {
  const auto red = [](ColorMatrix matrix, ColorRange range) {
    return to_yuv({.width = 1, .height = 1, .chroma = Chroma::k444, .matrix = matrix, .range = range}, {255, 0, 0});
  };
  EXPECT_THAT(red(ColorMatrix::kBt601, ColorRange::kLimited), ElementsAre(81, 90, 240));
  EXPECT_THAT(red(ColorMatrix::kBt601, ColorRange::kFull), ElementsAre(76, 85, 255));
  EXPECT_THAT(red(ColorMatrix::kBt709, ColorRange::kLimited), ElementsAre(63, 102, 240));
  EXPECT_THAT(red(ColorMatrix::kBt709, ColorRange::kFull), ElementsAre(54, 99, 255));
}

TEST(Yuv, GrayHasNoColorAndComesBack) {
  for (const ColorMatrix matrix : kMatrices)
    for (const ColorRange range : kRanges)
      for (int level = 0; level < 256; ++level) {
        const YuvLayout layout{.width = 2, .height = 2, .chroma = Chroma::k420Center, .matrix = matrix, .range = range};
        const Samples gray(12, static_cast<std::uint8_t>(level));
        const Samples yuv = to_yuv(layout, gray);
        EXPECT_EQ(yuv[4], 128);
        EXPECT_EQ(yuv[5], 128);
        const Samples back = to_rgb(layout, yuv);
        for (const std::uint8_t byte : back) EXPECT_LE(std::abs(byte - level), range == ColorRange::kFull ? 0 : 1);
        if (level == 0 || level == 255) {
          EXPECT_EQ(back, gray);
        }
      }
}

TEST(Yuv, RgbIsNearestToTheExactOnEveryVectorUnit) {
  std::uint64_t seed = 0;
  on_every_vector_unit([&](const char* unit) {
    for (const Chroma chroma : kChromas)
      for (const ColorMatrix matrix : kMatrices)
        for (const ColorRange range : kRanges)
          for (const int width : {1, 2, 3, 31, 64, 65, 129, 258})
            for (const int height : {1, 2, 5}) {
              const YuvLayout layout{width, height, chroma, matrix, range};
              const Samples frame = random_samples(layout.frame_bytes(), ++seed);
              EXPECT_LE(largest_error(to_rgb(layout, frame), Exact(layout).rgb(frame)), 0.55)
                  << unit << ": " << name_of(layout);
            }
  });
}

TEST(Yuv, LumaAndColorAreNearestToTheExactOnEveryVectorUnit) {
  std::uint64_t seed = 0;
  on_every_vector_unit([&](const char* unit) {
    for (const Chroma chroma : {Chroma::k420Center, Chroma::k420Left, Chroma::k444})
      for (const ColorMatrix matrix : kMatrices)
        for (const ColorRange range : kRanges)
          for (const int width : {1, 2, 3, 31, 64, 65, 129, 258})
            for (const int height : {1, 2, 5}) {
              const YuvLayout layout{width, height, chroma, matrix, range};
              const Samples rgb = random_samples(rgb_bytes(layout), ++seed);
              EXPECT_LE(largest_error(to_yuv(layout, rgb), Exact(layout).yuv(rgb)), 0.55)
                  << unit << ": " << name_of(layout);
            }
  });
}

TEST(Yuv, EveryVectorUnitGivesTheSameBytes) {
  const YuvLayout layout{.width = 1021, .height = 37, .chroma = Chroma::k420Left, .matrix = ColorMatrix::kBt709};
  const Samples frame = random_samples(layout.frame_bytes(), 5);
  const Samples rgb = to_rgb(layout, frame);
  const Samples back = to_yuv(layout, rgb);
  on_every_vector_unit([&](const char* unit) {
    EXPECT_EQ(to_rgb(layout, frame), rgb) << unit;
    EXPECT_EQ(to_yuv(layout, rgb), back) << unit;
  });
}

TEST(Yuv, ColorsComeBack) {
  for (const ColorMatrix matrix : kMatrices) {
    const YuvLayout layout{.width = 512, .height = 9, .chroma = Chroma::k444, .matrix = matrix};
    const Samples rgb = random_samples(rgb_bytes(layout), 7);
    const Samples back = to_rgb(layout, to_yuv(layout, rgb));
    for (std::size_t i = 0; i < rgb.size(); ++i) ASSERT_LE(std::abs(rgb[i] - back[i]), 3) << i;
  }
}

TEST(Yuv, RowsMayLieApart) {
  const YuvLayout layout{.width = 5, .height = 3, .chroma = Chroma::k420Center};
  const Samples frame = random_samples(layout.frame_bytes(), 3);
  Samples apart(3 * 16 + 2 * 2 * 16, 0xEE);
  for (int y = 0; y < 3; ++y) std::copy_n(frame.data() + 5 * y, 5, apart.data() + 16 * y);
  for (int y = 0; y < 4; ++y) std::copy_n(frame.data() + 15 + 3 * y, 3, apart.data() + 48 + 16 * y);
  Samples rgb(rgb_bytes(layout));
  YuvToRgb(layout).convert({{apart.data(), apart.data() + 48, apart.data() + 80}, {16, 16, 16}}, rgb);
  EXPECT_EQ(rgb, to_rgb(layout, frame));
}

TEST(Yuv, HighDefinitionIsBt709) {
  EXPECT_EQ(usual_matrix(720, 576), ColorMatrix::kBt601);
  EXPECT_EQ(usual_matrix(1024, 576), ColorMatrix::kBt601);
  EXPECT_EQ(usual_matrix(1280, 536), ColorMatrix::kBt709);
  EXPECT_EQ(usual_matrix(640, 640), ColorMatrix::kBt709);
}

}  // namespace
}  // namespace headroom
