#pragma once

#include "kernels/kernel.hpp"

namespace headroom {

/// Batched matmul in f32 or bf16 on oneDNN, with rows of any strides.
[[nodiscard]] const Kernel& onednn_matmul();

}  // namespace headroom
