#pragma once

#include "kernels/kernel.hpp"

namespace headroom {

/// Any dtype to any other, rounding to nearest even and saturating as store_from_double() says; vectorized between f32
/// and bf16 and from f16, an element at a time for the rest. Innermost stride 1, any strides outside.
[[nodiscard]] const Kernel& highway_cast();

}  // namespace headroom
