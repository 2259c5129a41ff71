#include "media/resize.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>
#include <string>

#include "base/test_paths.hpp"
#include "media/read_image.hpp"
#include "media/test_util.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

Image first_channel(const Image& image) {
  Image gray = make_image(image.width, image.height, 1);
  for (std::size_t i = 0; i < gray.pixels.size(); ++i) gray.pixels[i] = image.pixels[3 * i];
  return gray;
}

TEST(ResizeLanczos, GivesTheBytesThatPillowGives) {
  const fs::path folder = fs::path(kSourceDir) / "tests/goldens/media/resize";
  int compared = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().stem();  // the input's name, and after "_" the size
    const std::size_t end = name.rfind('_');
    if (end == std::string::npos) continue;
    const Image from = read_image(folder / (name.substr(0, end) + ".png"));
    const Image to = read_image(entry.path());
    EXPECT_EQ(resize_lanczos(from, to.width, to.height), to) << name;
    EXPECT_EQ(resize_lanczos(first_channel(from), to.width, to.height), first_channel(to)) << name << ", gray";
    ++compared;
  }
  EXPECT_EQ(compared, 25);
}

TEST(ResizeLanczos, ChecksItsArguments) {
  EXPECT_THROW((void)resize_lanczos(test::pattern(2, 2, 3), 0, 1), std::logic_error);
  EXPECT_THROW((void)resize_lanczos(test::pattern(2, 2, 3), 1, -1), std::logic_error);
  EXPECT_THROW((void)resize_lanczos(Image{}, 1, 1), std::logic_error);
}

}  // namespace
}  // namespace headroom
