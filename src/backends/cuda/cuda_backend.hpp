#pragma once

#include <memory>

#include "backends/backend.hpp"

namespace headroom {

/// The NVIDIA GPU of that index, which becomes the calling thread's current device. Throws Error where this build has
/// no CUDA support or the machine no usable GPU of that index.
[[nodiscard]] std::unique_ptr<Backend> make_cuda_backend(int index = 0);

}  // namespace headroom
