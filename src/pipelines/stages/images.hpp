#pragma once

#include <vector>

#include "base/tensors/host_tensor.hpp"
#include "media/image.hpp"

namespace headroom {

/// 8-bit images of pixels [images, channels, height, width] f32 in [-1, 1], clamped. Throws Error where one is NaN.
[[nodiscard]] std::vector<Image> to_images(const HostTensor& pixels);

/// The other way, of one image: [1, channels, height, width] f32, 2 x / 255 - 1.
[[nodiscard]] HostTensor to_pixels(const Image& image);

}  // namespace headroom
