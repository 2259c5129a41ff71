#include "pipelines/stages/images.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace headroom {

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

HostTensor to_pixels(const Image& image) {
  HostTensor pixels(DType::kF32, {1, image.channels, image.height, image.width});
  const std::span<float> values = pixels.as<float>();
  const auto plane = static_cast<std::size_t>(image.height) * static_cast<std::size_t>(image.width);
  const auto channels = static_cast<std::size_t>(image.channels);
  for (std::size_t i = 0; i < plane; ++i)
    for (std::size_t c = 0; c < channels; ++c)
      values[c * plane + i] = 2 * (static_cast<float>(image.pixels[i * channels + c]) / 255.0F) - 1;
  return pixels;
}

}  // namespace headroom
