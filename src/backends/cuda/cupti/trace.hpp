#pragma once

#include <memory>

#include "backends/backend.hpp"

namespace headroom::cuda {

/// What the GPU does, by CUPTI's activity records. The library is opened by its soname at the first call. Throws Error
/// where it is not there or refuses (another profiler is attached), or a trace exists already.
[[nodiscard]] std::unique_ptr<DeviceTrace> make_cupti_trace();

}  // namespace headroom::cuda
