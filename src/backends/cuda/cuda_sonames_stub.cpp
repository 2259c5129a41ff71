#include "backends/cuda/sonames.hpp"

namespace headroom {

std::optional<GpuSonames> gpu_sonames() { return std::nullopt; }

}  // namespace headroom
