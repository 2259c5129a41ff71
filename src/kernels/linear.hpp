#pragma once

#include "kernels/kernel.hpp"

namespace headroom {

/// linear with bias and activation in f32 or bf16, on oneDNN's matmul primitive; packs weights.
[[nodiscard]] const Kernel& onednn_linear();

/// linear with an activation in bf16 on AMX tiles, for weights of multiples of 32, which it packs.
[[nodiscard]] const Kernel& amx_linear();

}  // namespace headroom
