#include "media/jpeg_encoder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "base/test_util.hpp"
#include "media/jpeg.hpp"

namespace headroom {
namespace {

/// Gradients in three directions, a different one in each channel.
Image slopes(int width, int height) {
  Image image = make_image(width, height, 3);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      std::uint8_t* pixel = image.row(y) + 3 * x;
      pixel[0] = static_cast<std::uint8_t>(40 + 2 * x);
      pixel[1] = static_cast<std::uint8_t>(200 - 2 * y);
      pixel[2] = static_cast<std::uint8_t>(60 + x + y);
    }
  return image;
}

TEST(JpegEncoder, IsReadBackAsWhatItWas) {
  for (const auto& [width, height] : {std::pair{1, 1}, {7, 3}, {64, 40}}) {
    const Image image = slopes(width, height);
    const std::string file = encode_jpeg(image.pixels, width, height, 95);
    const Image read = parse_jpeg(file, "preview").image;
    ASSERT_EQ(read.width, width);
    ASSERT_EQ(read.height, height);
    int worst = 0;
    for (std::size_t i = 0; i < image.pixels.size(); ++i)
      worst = std::max(worst, std::abs(int{image.pixels[i]} - int{read.pixels[i]}));
    EXPECT_LE(worst, 6) << width << " x " << height;
  }
}

TEST(JpegEncoder, KeepsTheEdgesOfColours) {
  Image halves = make_image(16, 16, 3);  // red next to green, with the edge inside a block of 2 x 2 pixels
  for (int y = 0; y < 16; ++y)
    for (int x = 0; x < 16; ++x) halves.row(y)[3 * x + (x < 7 ? 0 : 1)] = 200;
  const Image read = parse_jpeg(encode_jpeg(halves.pixels, 16, 16, 95), "preview").image;
  EXPECT_GT(read.row(8)[3 * 6], 160);
  EXPECT_LT(read.row(8)[3 * 7], 40);
}

TEST(JpegEncoder, TakesFewerBytesAtLessQuality) {
  const Image image = slopes(64, 64);
  EXPECT_LT(encode_jpeg(image.pixels, 64, 64, 20).size(), encode_jpeg(image.pixels, 64, 64, 95).size());
}

TEST(JpegEncoder, RefusesWhatAJpegCannotHold) {
  const std::vector<std::uint8_t> row(70000 * 3);
  EXPECT_THAT(error_of([&] { (void)encode_jpeg(row, 70000, 1, 80); }),
              testing::StartsWith("cannot make a JPEG of 70000 x 1 pixels: "));
}

}  // namespace
}  // namespace headroom
