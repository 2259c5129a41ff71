#pragma once

#include "kernels/kernel.hpp"

namespace headroom {

/// Rows of f32 or bf16 to i8 with a scale each.
[[nodiscard]] const Kernel& highway_quantize();

}  // namespace headroom
