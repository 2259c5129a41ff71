#include "pipelines/stages/pixel_format.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text/json.hpp"

namespace headroom {

PixelFormat parse_pixel_format(const nlohmann::json& json, const std::string& context) {
  const PixelFormat pixels{.height = get_int(json, "height", context),
                           .width = get_int(json, "width", context),
                           .channels = get_int(json, "channels", context),
                           .patch = get_int(json, "patch", context)};
  if (pixels.patch < 1 || pixels.height < 1 || pixels.width < 1 || pixels.height % pixels.patch != 0 ||
      pixels.width % pixels.patch != 0)
    fail("{}: {} x {} pixels do not divide into patches of {}", context, pixels.height, pixels.width, pixels.patch);
  if (pixels.channels != 1 && pixels.channels != 3)
    fail("{}: channels is {}, expected 1 or 3", context, pixels.channels);
  return pixels;
}

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

}  // namespace headroom
