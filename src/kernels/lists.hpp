#pragma once

#include <span>

#include "kernels/kernel.hpp"

namespace headroom {

/// The kernels of each device in the order they are tried: of those for one op, the best first. cuda_kernels() is empty
/// in a build without CUDA.
[[nodiscard]] std::span<const Kernel* const> cpu_kernels();
[[nodiscard]] std::span<const Kernel* const> cuda_kernels();

}  // namespace headroom
