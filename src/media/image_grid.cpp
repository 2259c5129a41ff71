#include "media/image_grid.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/tensors/divide_up.hpp"

namespace headroom {

Image image_grid(std::span<const Image> images, int columns, int padding) {
  HR_CHECK(!images.empty() && columns >= 1 && padding >= 0);
  const Image& first = images.front();
  const int count = static_cast<int>(images.size());
  columns = std::min(columns, count);
  const int rows = divide_up(count, columns);
  Image grid = make_image(columns * (first.width + padding) + padding, rows * (first.height + padding) + padding,
                          first.channels);
  constexpr std::uint8_t kWhite = 255;
  std::ranges::fill(grid.pixels, kWhite);
  for (int i = 0; i < count; ++i) {
    const Image& image = images[static_cast<std::size_t>(i)];
    check_image(image);
    HR_CHECK_EQ(image.width, first.width);
    HR_CHECK_EQ(image.height, first.height);
    HR_CHECK_EQ(image.channels, first.channels);
    const int left = padding + i % columns * (first.width + padding);
    const int top = padding + i / columns * (first.height + padding);
    for (int y = 0; y < image.height; ++y)
      std::copy_n(image.row(y), image.row_bytes(), grid.row(top + y) + left * grid.channels);
  }
  return grid;
}

}  // namespace headroom
