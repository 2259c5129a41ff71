#pragma once

#include "kernels/kernel.hpp"

namespace headroom {

/// max_pool2d in f32 or bf16 on oneDNN, row-major or channels-last.
[[nodiscard]] const Kernel& onednn_max_pool2d();

}  // namespace headroom
