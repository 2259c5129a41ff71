#pragma once

#include "kernels/kernel.hpp"

namespace headroom {

/// linear with bias and activation in f32 or bf16, on oneDNN's matmul primitive; packs weights.
[[nodiscard]] const Kernel& onednn_linear();

}  // namespace headroom
