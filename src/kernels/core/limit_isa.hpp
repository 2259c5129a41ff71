#pragma once

#include "base/target.hpp"

namespace headroom {

/// From now on this process uses no wider vector units than `most`: the CPU backend's target, the kernels written here
/// and oneDNN's. To be called before the first kernel is prepared; throws Error where oneDNN has been used already, and
/// where the kernels were compiled for wider units alone.
/// oneDNN and the C library use at least SSE4.1, and any units for copies.
void limit_cpu_isa(CpuIsa most);

}  // namespace headroom
