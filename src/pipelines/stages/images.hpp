#pragma once

#include <vector>

#include "base/tensors/host_tensor.hpp"
#include "media/image.hpp"

namespace headroom {

/// Converts pixels [images, channels, height, width] f32 in [-1, 1] to 8-bit images, clamped. Throws Error for NaN.
[[nodiscard]] std::vector<Image> to_images(const HostTensor& pixels);

/// Converts one image to pixels [1, channels, height, width] f32: 2 x / 255 - 1.
[[nodiscard]] HostTensor to_pixels(const Image& image);

}  // namespace headroom
