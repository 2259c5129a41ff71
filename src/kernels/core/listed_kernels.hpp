#pragma once

#include <vector>

#include "kernels/core/kernel.hpp"

namespace headroom {

/// The kernels of kernels/all_kernels.def for CPUs, and those for NVIDIA GPUs, in its order. None of the latter in a
/// build without CUDA.
[[nodiscard]] std::vector<const Kernel*> listed_cpu_kernels();
[[nodiscard]] std::vector<const Kernel*> listed_cuda_kernels();

}  // namespace headroom
