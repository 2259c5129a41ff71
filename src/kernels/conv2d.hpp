#pragma once

#include "kernels/kernel.hpp"

namespace headroom {

/// conv2d with bias in f32 or bf16 on oneDNN, row-major or channels-last; packs weights.
[[nodiscard]] const Kernel& onednn_conv2d();

}  // namespace headroom
