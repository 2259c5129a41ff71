#pragma once

#include <memory>

#include "backends/backend.hpp"

namespace headroom::cuda {

/// A trace of the GPU by CUPTI's activity records. The library is opened by its soname at the first call. Throws
/// Error if it is missing or refuses (another profiler is attached), or if a trace already exists.
[[nodiscard]] std::unique_ptr<DeviceTrace> make_cupti_trace();

}  // namespace headroom::cuda
