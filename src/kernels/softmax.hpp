#pragma once

#include "kernels/kernel.hpp"

namespace headroom {

/// softmax over the innermost axis of f32 or bf16, rows with stride 1 and any strides outside; may run in place.
[[nodiscard]] const Kernel& highway_softmax();

}  // namespace headroom
