#pragma once

#include <memory>

#include "backends/backend.hpp"

namespace headroom {

/// The NVIDIA GPU of that index, which becomes the calling thread's current device. Ranks that share a request have
/// GPUs from that one on, `count` at most unless it is 0. Throws Error where this build has
/// no CUDA support or the machine no usable GPU of that index.
[[nodiscard]] std::unique_ptr<Backend> make_cuda_backend(int index = 0, int count = 0);

}  // namespace headroom
