#pragma once

#include <memory>

#include "backends/backend.hpp"

namespace headroom {

/// The CPU as a backend. `threads` limits the OpenMP team of the calling thread, which oneDNN and our kernels share; 0,
/// or more than the affinity mask allows, means all that it allows. Throws Error (usage) for a negative count.
[[nodiscard]] std::unique_ptr<Backend> make_cpu_backend(int threads = 0);

}  // namespace headroom
