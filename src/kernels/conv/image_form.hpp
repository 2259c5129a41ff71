#pragma once

#include "ir/fusion_rules.hpp"
#include "kernels/core/kernel.hpp"

namespace headroom {

/// The form of images that convolutions like, for Kernel::best_images(). Matrix units read channels in vectors of 16
/// bytes; f32 that is not rounded to TF32 is computed on vector units, from any number of channels.
///
/// On a CPU: channels-last, whatever the number.
[[nodiscard]] ImageForm cpu_images(const OpSpec& spec);
/// On a GPU: channels-last if both images fill vectors, which row-major images beat otherwise.
[[nodiscard]] ImageForm cuda_images(const OpSpec& spec);

}  // namespace headroom
