#include "media/video/made_scene.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "base/test_paths.hpp"
#include "media/ink.hpp"
#include "media/read_image.hpp"

namespace headroom {
namespace {

// tests/goldens/make_live_ink.py
constexpr std::array<std::uint32_t, 3> kSeeds = {1, 7, 4'000'000'000};
constexpr std::array<std::int64_t, 2> kFrames = {0, 41};
constexpr int kSide = 64;

/// One square image of the golden.
Image cell(const Image& sheet, std::size_t row, std::size_t column) {
  Image image = make_image(kSide, kSide, 3);
  for (int y = 0; y < kSide; ++y)
    std::copy_n(sheet.row(static_cast<int>(row) * kSide + y) + column * image.row_bytes(), image.row_bytes(),
                image.row(y));
  return image;
}

/// The share of bytes that differ, and the largest difference.
struct Difference {
  double share = 0;
  int largest = 0;
};
Difference difference(const Image& a, const Image& b) {
  Difference found;
  for (std::size_t i = 0; i < a.pixels.size(); ++i) {
    const int distance = std::abs(a.pixels[i] - b.pixels[i]);
    found.largest = std::max(found.largest, distance);
    found.share += distance > 0 ? 1.0 / static_cast<double>(a.pixels.size()) : 0;
  }
  return found;
}

class LiveInkGolden : public testing::Test {
 protected:
  Image sheet_ = read_image(std::filesystem::path(kSourceDir) / "tests/goldens/media/live_ink.png");
};

/// The golden was computed in single precision, and all values are rounded to bytes.
TEST_F(LiveInkGolden, ScenesAreThoseOfTheTraining) {
  for (std::size_t row = 0; row < kSeeds.size(); ++row)
    for (std::size_t i = 0; i < kFrames.size(); ++i) {
      const Difference found = difference(draw_scene(kSeeds[row], kFrames[i], kSide), cell(sheet_, row, i));
      EXPECT_LE(found.largest, 1) << "seed " << kSeeds[row] << ", frame " << kFrames[i];
      EXPECT_LE(found.share, 0.01) << "seed " << kSeeds[row] << ", frame " << kFrames[i];
    }
}

TEST_F(LiveInkGolden, InkIsTheTeacherOfTheTraining) {
  for (std::size_t row = 0; row < kSeeds.size(); ++row)
    for (std::size_t i = 0; i < kFrames.size(); ++i) {
      const Difference found = difference(print_in_ink(cell(sheet_, row, i)), cell(sheet_, row, i + kFrames.size()));
      EXPECT_LE(found.largest, 1) << "seed " << kSeeds[row] << ", frame " << kFrames[i];
      EXPECT_LE(found.share, 0.01) << "seed " << kSeeds[row] << ", frame " << kFrames[i];
    }
}

TEST(CameraNoise, IsOfItsDeviationAndOfEachFrameItsOwn) {
  Image gray = make_image(kSide, kSide, 3);
  std::ranges::fill(gray.pixels, std::uint8_t{128});
  const Image seen = add_camera_noise(gray, 0.03, 5, 0);
  double sum = 0, squares = 0;
  for (const std::uint8_t level : seen.pixels) {
    sum += level - 128;
    squares += (level - 128) * (level - 128);
  }
  const auto count = static_cast<double>(seen.pixels.size());
  EXPECT_NEAR(sum / count, 0, 0.3);
  EXPECT_NEAR(std::sqrt(squares / count), 0.03 * 255, 0.2);
  EXPECT_EQ(add_camera_noise(gray, 0.03, 5, 0), seen);
  EXPECT_NE(add_camera_noise(gray, 0.03, 5, 1), seen);
  EXPECT_NE(add_camera_noise(gray, 0.03, 6, 0), seen);
  EXPECT_EQ(add_camera_noise(gray, 0, 5, 0), gray);
}

TEST(CameraNoise, EndsAtBlackAndWhite) {
  Image black = make_image(kSide, kSide, 3);
  const Image seen = add_camera_noise(black, 0.2, 1, 0);
  const auto zeros = static_cast<double>(std::ranges::count(seen.pixels, 0));
  EXPECT_NEAR(zeros / static_cast<double>(seen.pixels.size()), 0.5, 0.02);
  std::ranges::fill(black.pixels, std::uint8_t{255});
  const Image bright = add_camera_noise(black, 0.2, 1, 0);
  const auto whites = static_cast<double>(std::ranges::count(bright.pixels, 255));
  EXPECT_NEAR(whites / static_cast<double>(bright.pixels.size()), 0.5, 0.02);
}

}  // namespace
}  // namespace headroom
