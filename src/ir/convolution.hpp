#pragma once

#include "ir/builder.hpp"

namespace headroom {

/// What the attributes of a conv2d, conv2d_shortcut or conv_transpose2d say of how its weight goes over the image.
[[nodiscard]] Builder::Convolution convolution_of(const Attributes& attributes);

}  // namespace headroom
