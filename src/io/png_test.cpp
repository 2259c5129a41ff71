#include "io/png.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.hpp"
#include "base/test_util.hpp"

namespace headroom {
namespace {

using testing::StartsWith;

Image gradient(int width, int height, int channels) {
  Image image{.width = width, .height = height, .channels = channels, .pixels = {}};
  for (int i = 0; i < width * height * channels; ++i) image.pixels.push_back(static_cast<std::uint8_t>(i * 37 % 256));
  return image;
}

TEST(Png, RoundTripsGrayAndRgb) {
  const TempFolder folder;
  for (const int channels : {1, 3}) {
    for (const int width : {1, 7, 300}) {
      const Image image = gradient(width, 5, channels);
      write_png(folder / "a.png", image);
      EXPECT_EQ(read_png(folder / "a.png"), image) << width << " pixels wide, " << channels << " channels";
    }
  }
}

TEST(Png, IsAPngAndReproducible) {
  const TempFolder folder;
  write_png(folder / "a.png", gradient(9, 5, 3));
  write_png(folder / "b.png", gradient(9, 5, 3));
  EXPECT_THAT(read_file(folder / "a.png"), StartsWith("\x89PNG\r\n\x1a\n"));
  EXPECT_EQ(read_file(folder / "a.png"), read_file(folder / "b.png"));
}

TEST(Png, RefusesBrokenFiles) {
  const TempFolder folder;
  const std::string path = (folder / "a.png").string();
  write_file_atomically(path, "not a png");
  EXPECT_THAT(error_of([&] { (void)read_png(path); }), StartsWith(path + " is not a readable PNG: "));
  write_png(path, gradient(64, 64, 3));
  const std::string whole = read_file(path);
  write_file_atomically(path, whole.substr(0, whole.size() / 2));
  EXPECT_THAT(error_of([&] { (void)read_png(path); }), StartsWith(path + " is not a readable PNG: "));
  EXPECT_THAT(error_of([&] { write_png(folder / "none/a.png", gradient(2, 2, 1)); }), StartsWith("cannot write "));
}

TEST(Png, ChecksItsArgument) {
  Image image = gradient(4, 4, 3);
  image.pixels.pop_back();
  EXPECT_THROW(write_png("/dev/null", image), std::logic_error);
  EXPECT_THROW(write_png("/dev/null", Image{.width = 1, .height = 1, .channels = 2, .pixels = {1, 2}}),
               std::logic_error);
  EXPECT_THROW(write_png("/dev/null", Image{}), std::logic_error);
}

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
  const std::vector<Image> one{gradient(3, 2, 3)};
  EXPECT_EQ(image_grid(one, 8, 0), one[0]);  // no empty columns
  const std::vector<Image> two{gradient(3, 2, 3), gradient(3, 2, 3)};
  const Image column = image_grid(two, 1, 0);
  EXPECT_EQ(column.height, 4);
  EXPECT_EQ(column.pixels.size(), 36U);
  EXPECT_EQ(column.pixels[18], two[1].pixels[0]);
}

TEST(ImageGrid, RefusesUnequalImages) {
  const std::vector<Image> unequal{gradient(3, 2, 1), gradient(2, 3, 1)};
  EXPECT_THROW((void)image_grid(unequal, 2, 0), std::logic_error);
  EXPECT_THROW((void)image_grid({}, 2, 0), std::logic_error);
  EXPECT_THROW((void)image_grid(std::vector<Image>{gradient(3, 2, 1)}, 0, 0), std::logic_error);
}

}  // namespace
}  // namespace headroom
