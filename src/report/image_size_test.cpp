#include "report/image_size.hpp"

#include <gtest/gtest.h>

namespace headroom {
namespace {

TEST(ImageSizeOf, ReadsPixelsOrTokens) {
  const Subject unet{.name = "unet", .request = {{"width", 512}, {"height", 768}}};
  EXPECT_EQ(image_size_of(unet)->width, 512);
  EXPECT_EQ(pixels_of(unet), 512 * 768);
  Subject pipeline{.name = "flux", .request = {{"token_rows", 45}, {"token_columns", 80}}};
  EXPECT_FALSE(pixels_of(pipeline)) << "nothing says how large a token is";
  EXPECT_FALSE(image_size_of(pipeline));
  pipeline.token_pixels = 16;
  EXPECT_EQ(image_size_of(pipeline)->width, 1280);
  EXPECT_EQ(image_size_of(pipeline)->height, 720);
}

TEST(ImageSizeOf, KnowsOnlyTheAreaOfACountOfTokens) {
  const Subject pass{.name = "flux", .request = {{"image_tokens", 1024}}, .token_pixels = 16};
  EXPECT_FALSE(image_size_of(pass));
  EXPECT_EQ(pixels_of(pass), 512 * 512);
}

}  // namespace
}  // namespace headroom
