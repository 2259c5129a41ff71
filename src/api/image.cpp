#include "media/image.hpp"

#include <algorithm>
#include <utility>

#include "api/impl.hpp"
#include "base/error.hpp"
#include "media/png.hpp"
#include "media/read_image.hpp"
#include "pipelines/stages/images.hpp"

namespace headroom::v1 {

headroom::Image inner(const Image& image) {
  headroom::Image result{
      .width = image.width, .height = image.height, .channels = image.channels, .pixels = image.pixels};
  if (image.width < 1 || image.height < 1 || (image.channels != 1 && image.channels != 3) ||
      image.pixels.size() != result.row_bytes() * static_cast<std::size_t>(image.height))
    fail(
        "an image of {} x {} pixels and {} channels has {} bytes, expected at least one pixel, 1 or 3 channels, and a "
        "byte for each",
        image.width, image.height, image.channels, image.pixels.size());
  return result;
}

namespace {

Image outer(headroom::Image image) {
  return {.width = image.width, .height = image.height, .channels = image.channels, .pixels = std::move(image.pixels)};
}

}  // namespace

std::vector<Image> to_images(const TensorView& pixels) {
  return translated([&] {
    const HostTensor copy = copy_of(pixels);
    const headroom::Shape& shape = copy.shape();
    if (shape.rank() != 4 || copy.dtype() != headroom::DType::kF32 || (shape[1] != 1 && shape[1] != 3))
      fail("the pixels are {}{}, expected f32[images, 1 or 3, height, width]", copy.dtype(), shape);
    std::vector<Image> images;
    for (headroom::Image& image : headroom::to_images(copy)) images.push_back(outer(std::move(image)));
    return images;
  });
}

std::string encode_png(const Image& image) {
  return translated([&] { return headroom::encode_png(inner(image)); });
}

void write_png(const std::filesystem::path& path, const Image& image) {
  translated([&] { headroom::write_png(path, inner(image)); });
}

Image read_image(const std::filesystem::path& path) {
  return translated([&] { return outer(headroom::read_image(path)); });
}

}  // namespace headroom::v1
