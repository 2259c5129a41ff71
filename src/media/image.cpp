#include "media/image.hpp"

#include "base/error.hpp"

namespace headroom {
namespace {

std::size_t size_bytes(const Image& image) {
  HR_CHECK(image.width > 0 && image.height > 0);
  HR_CHECK(image.channels == 1 || image.channels == 3);
  return image.row_bytes() * static_cast<std::size_t>(image.height);
}

}  // namespace

Image make_image(int width, int height, int channels) {
  Image image{.width = width, .height = height, .channels = channels, .pixels = {}};
  image.pixels.resize(size_bytes(image));
  return image;
}

void check_image(const Image& image) { HR_CHECK_EQ(image.pixels.size(), size_bytes(image)); }

void check_pixel_count(std::string_view file_name, std::uint64_t width, std::uint64_t height, std::uint64_t most) {
  if (width * height <= most) return;  // libpng and libjpeg limit extents to 31 bits
  fail("{} is too large a picture: {} by {} pixels, at most {} are read", file_name, width, height, most);
}

}  // namespace headroom
