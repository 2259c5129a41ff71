#pragma once

#include <memory>

#include "backends/backend.hpp"

namespace headroom {

/// The first NVIDIA GPU. Throws Error where this build has no CUDA support or the machine no usable GPU.
[[nodiscard]] std::unique_ptr<Backend> make_cuda_backend();

}  // namespace headroom
