#include "run/images.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace headroom {

HostTensor unpatch(const HostTensor& latents, const PixelFormat& format) {
  const std::int64_t images = latents.shape()[0];
  const std::int64_t columns = format.width / format.patch;
  HR_CHECK(latents.shape() ==
           (Shape{images, columns * (format.height / format.patch), format.patch * format.patch * format.channels}));
  HostTensor pixels(DType::kF32, {images, format.channels, format.height, format.width});
  const std::span<const float> from = latents.as<float>();
  const std::span<float> to = pixels.as<float>();
  std::size_t at = 0;
  for (std::int64_t n = 0; n < images; ++n)
    for (std::int64_t c = 0; c < format.channels; ++c)
      for (std::int64_t y = 0; y < format.height; ++y)
        for (std::int64_t x = 0; x < format.width; ++x) {
          const std::int64_t token = y / format.patch * columns + x / format.patch;
          const std::int64_t within = ((y % format.patch) * format.patch + x % format.patch) * format.channels + c;
          to[at++] = from[static_cast<std::size_t>((n * latents.shape()[1] + token) * latents.shape()[2] + within)];
        }
  return pixels;
}

std::vector<Image> to_images(const HostTensor& pixels) {
  const Shape& shape = pixels.shape();  // [images, channels, height, width]
  std::vector<Image> images;
  for (std::int64_t n = 0; n < shape[0]; ++n) {
    Image image{.width = static_cast<int>(shape[3]),
                .height = static_cast<int>(shape[2]),
                .channels = static_cast<int>(shape[1]),
                .pixels = {}};
    for (std::int64_t y = 0; y < shape[2]; ++y)
      for (std::int64_t x = 0; x < shape[3]; ++x)
        for (std::int64_t c = 0; c < shape[1]; ++c) {
          const double value = pixels.at(((n * shape[1] + c) * shape[2] + y) * shape[3] + x);
          if (std::isnan(value))
            fail("image {} holds NaN at row {}, column {}: the model or its weights are broken", n, y, x);
          image.pixels.push_back(static_cast<std::uint8_t>(std::lround(std::clamp((value + 1.0) * 127.5, 0.0, 255.0))));
        }
    images.push_back(std::move(image));
  }
  return images;
}

}  // namespace headroom
