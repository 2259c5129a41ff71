#include "io/png.hpp"

#include <png.h>

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "base/file.hpp"

namespace headroom {
namespace {

/// libpng's simplified interface: it reports errors in `message` and never jumps over C++ frames.
class PngControl {
 public:
  PngControl() { control_.version = PNG_IMAGE_VERSION; }
  ~PngControl() { ::png_image_free(&control_); }
  PngControl(const PngControl&) = delete;
  PngControl& operator=(const PngControl&) = delete;

  png_image* get() { return &control_; }
  png_image* operator->() { return &control_; }

 private:
  png_image control_{};
};

std::size_t pixel_bytes(const Image& image) {
  HR_CHECK(image.width > 0 && image.height > 0);
  HR_CHECK(image.channels == 1 || image.channels == 3);
  const std::size_t bytes = static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height) *
                            static_cast<std::size_t>(image.channels);
  HR_CHECK_EQ(image.pixels.size(), bytes);
  return bytes;
}

}  // namespace

void write_png(const std::filesystem::path& path, const Image& image) {
  static_cast<void>(pixel_bytes(image));
  PngControl control;
  control->width = static_cast<png_uint_32>(image.width);
  control->height = static_cast<png_uint_32>(image.height);
  control->format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(*control.get());
  std::string encoded(size, '\0');
  if (::png_image_write_to_memory(control.get(), encoded.data(), &size, 0, image.pixels.data(), 0, nullptr) == 0) {
    fail("cannot write {}: libpng: {}", path.native(), static_cast<const char*>(control->message));
  }
  encoded.resize(size);
  write_file_atomically(path, encoded);
}

Image read_png(const std::filesystem::path& path) {
  const std::string encoded = read_file(path);
  PngControl control;
  const auto check = [&](int good) {
    if (good == 0) fail("{} is not a readable PNG: {}", path.native(), static_cast<const char*>(control->message));
  };
  check(::png_image_begin_read_from_memory(control.get(), encoded.data(), encoded.size()));
  const bool color = (control->format & PNG_FORMAT_FLAG_COLOR) != 0;
  control->format = color ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  Image image{.width = static_cast<int>(control->width),
              .height = static_cast<int>(control->height),
              .channels = color ? 3 : 1,
              .pixels = {}};
  image.pixels.resize(PNG_IMAGE_SIZE(*control.get()));
  const png_color black{};
  check(::png_image_finish_read(control.get(), &black, image.pixels.data(), 0, nullptr));
  return image;
}

Image image_grid(std::span<const Image> images, int columns, int padding) {
  HR_CHECK(!images.empty() && columns >= 1 && padding >= 0);
  const Image& first = images.front();
  const int count = static_cast<int>(images.size());
  columns = std::min(columns, count);
  const int rows = (count + columns - 1) / columns;
  Image grid{.width = columns * (first.width + padding) + padding,
             .height = rows * (first.height + padding) + padding,
             .channels = first.channels,
             .pixels = {}};
  constexpr std::uint8_t kWhite = 255;
  const auto channels = static_cast<std::size_t>(grid.channels);
  grid.pixels.assign(static_cast<std::size_t>(grid.width) * static_cast<std::size_t>(grid.height) * channels, kWhite);
  const std::size_t row_bytes = static_cast<std::size_t>(first.width) * channels;
  for (int i = 0; i < count; ++i) {
    const Image& image = images[static_cast<std::size_t>(i)];
    HR_CHECK_EQ(image.width, first.width);
    HR_CHECK_EQ(image.height, first.height);
    HR_CHECK_EQ(image.channels, first.channels);
    static_cast<void>(pixel_bytes(image));
    const int left = padding + i % columns * (first.width + padding);
    const int top = padding + i / columns * (first.height + padding);
    for (int y = 0; y < image.height; ++y) {
      const std::size_t to =
          (static_cast<std::size_t>(top + y) * static_cast<std::size_t>(grid.width) + static_cast<std::size_t>(left)) *
          channels;
      std::copy_n(image.pixels.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(y) * row_bytes),
                  row_bytes, grid.pixels.begin() + static_cast<std::ptrdiff_t>(to));
    }
  }
  return grid;
}

}  // namespace headroom
