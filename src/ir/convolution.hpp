#pragma once

#include "ir/builder.hpp"

namespace headroom {

/// The stride, padding, dilation and groups in the attributes of a conv2d, conv2d_shortcut or conv_transpose2d.
[[nodiscard]] Builder::Convolution convolution_of(const Attributes& attributes);

}  // namespace headroom
