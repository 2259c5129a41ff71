#include "train/labelled_images.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/files/hash.hpp"

namespace headroom {

LabelledImages::LabelledImages(const ImageFiles& files, std::int64_t pad)
    : images_(read_idx_file(files.images)), labels_(read_idx_file(files.labels)), pad_(pad) {
  if (images_.extents.size() != 3)
    fail("{}: has {} axes, expected 3: images, rows and columns", files.images, images_.extents.size());
  if (labels_.extents.size() != 1 || labels_.extents[0] != count())
    fail("{}: expected {} labels, one for each image of {}", files.labels, count(), files.images);
  for (std::int64_t image = 0; image < count(); ++image) classes_ = std::max(classes_, label(image) + 1);
  hash_ = Hasher().add(images_.bytes).add(labels_.bytes).digest();
}

std::int64_t LabelledImages::label(std::int64_t image) const {
  return static_cast<std::uint8_t>(labels_.bytes[static_cast<std::size_t>(image)]);
}

void LabelledImages::copy_patches(std::int64_t image, std::int64_t side, std::span<std::uint8_t> to) const {
  HR_CHECK(std::ssize(to) == rows() * columns() && rows() % side == 0 && columns() % side == 0);
  const std::int64_t height = images_.extents[1], width = images_.extents[2];
  std::ranges::fill(to, std::uint8_t{0});
  for (std::int64_t row = 0; row < height; ++row) {
    for (std::int64_t column = 0; column < width; ++column) {
      const std::int64_t y = row + pad_, x = column + pad_;
      const std::int64_t patch = y / side * (columns() / side) + x / side;
      to[static_cast<std::size_t>((patch * side + y % side) * side + x % side)] =
          static_cast<std::uint8_t>(images_.bytes[static_cast<std::size_t>((image * height + row) * width + column)]);
    }
  }
}

}  // namespace headroom
