#pragma once

#include <vector>

#include "base/host_tensor.hpp"
#include "io/png.hpp"
#include "run/model.hpp"

namespace headroom {

/// Pixels [images, channels, height, width] f32 in [-1, 1] (unclamped) of latents [images, tokens, patch * patch *
/// channels].
[[nodiscard]] HostTensor unpatch(const HostTensor& latents, const PixelFormat& format);

/// 8-bit images of pixels as unpatch() gives them, clamped. Throws Error where one is NaN.
[[nodiscard]] std::vector<Image> to_images(const HostTensor& pixels);

}  // namespace headroom
