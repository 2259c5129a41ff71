#include "media/image_grid.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "media/test_util.hpp"

namespace headroom {
namespace {

TEST(ImageGrid, PlacesImagesRowByRow) {
  const auto dot = [](std::uint8_t value) {
    return Image{.width = 2, .height = 1, .channels = 1, .pixels = {value, static_cast<std::uint8_t>(value + 1)}};
  };
  const std::vector<Image> images{dot(10), dot(20), dot(30)};
  const Image grid = image_grid(images, 2, 1);
  const std::uint8_t w = 255;
  EXPECT_EQ(grid, (Image{.width = 7, .height = 5, .channels = 1, .pixels = {w, w,  w,  w, w,  w,  w,  //
                                                                            w, 10, 11, w, 20, 21, w,  //
                                                                            w, w,  w,  w, w,  w,  w,  //
                                                                            w, 30, 31, w, w,  w,  w,  //
                                                                            w, w,  w,  w, w,  w,  w}}));
}

TEST(ImageGrid, HandlesChannelsAndShortRows) {
  const std::vector<Image> one{test::pattern(3, 2, 3)};
  EXPECT_EQ(image_grid(one, 8, 0), one[0]);  // no empty columns
  const std::vector<Image> two{test::pattern(3, 2, 3), test::pattern(3, 2, 3)};
  const Image column = image_grid(two, 1, 0);
  EXPECT_EQ(column.height, 4);
  EXPECT_EQ(column.pixels.size(), 36U);
  EXPECT_EQ(column.pixels[18], two[1].pixels[0]);
}

TEST(ImageGrid, RefusesUnequalImages) {
  const std::vector<Image> unequal{test::pattern(3, 2, 1), test::pattern(2, 3, 1)};
  EXPECT_THROW((void)image_grid(unequal, 2, 0), std::logic_error);
  EXPECT_THROW((void)image_grid({}, 2, 0), std::logic_error);
  EXPECT_THROW((void)image_grid(std::vector<Image>{test::pattern(3, 2, 1)}, 0, 0), std::logic_error);
}

}  // namespace
}  // namespace headroom
