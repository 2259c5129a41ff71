#include "pipelines/stages/kontext_sizes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/error.hpp"

namespace headroom {
namespace {

/// Width and height, from the narrowest.
constexpr std::array<std::pair<std::int64_t, std::int64_t>, 17> kPreferred = {{{672, 1568},
                                                                               {688, 1504},
                                                                               {720, 1456},
                                                                               {752, 1392},
                                                                               {800, 1328},
                                                                               {832, 1248},
                                                                               {880, 1184},
                                                                               {944, 1104},
                                                                               {1024, 1024},
                                                                               {1104, 944},
                                                                               {1184, 880},
                                                                               {1248, 832},
                                                                               {1328, 800},
                                                                               {1392, 752},
                                                                               {1456, 720},
                                                                               {1504, 688},
                                                                               {1568, 672}}};

double aspect(double width, double height) { return width / height; }

}  // namespace

ImageSize kontext_reference_size(const ImageSize& image) {
  // Pixels; the image is cropped to multiples of this before its aspect ratio is computed.
  constexpr std::int64_t kToken = 16;
  if (image.height < kToken || image.width < kToken)
    fail_usage("the image is {} x {} pixels, expected at least {} x {}", image.width, image.height, kToken, kToken);
  const double wanted =
      aspect(static_cast<double>(image.width / kToken * kToken), static_cast<double>(image.height / kToken * kToken));
  const auto distance = [&](const auto& size) {
    return std::abs(wanted - aspect(static_cast<double>(size.first), static_cast<double>(size.second)));
  };
  const auto nearest = *std::ranges::min_element(kPreferred, {}, distance);
  return {.height = nearest.second, .width = nearest.first};
}

ImageSize kontext_output_size(const ImageSize& asked, std::int64_t step, std::int64_t area) {
  const double ratio = aspect(static_cast<double>(asked.width), static_cast<double>(asked.height));
  const auto along = [&](double pixels) {
    const auto rounded = static_cast<std::int64_t>(std::nearbyint(pixels));  // rounds half to even, like Python
    return std::max(step, rounded / step * step);
  };
  return {.height = along(std::sqrt(static_cast<double>(area) / ratio)),
          .width = along(std::sqrt(static_cast<double>(area) * ratio))};
}

}  // namespace headroom
