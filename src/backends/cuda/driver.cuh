#pragma once

#include <cuda.h>

#include <source_location>

namespace headroom::cuda {

/// Driver functions without a counterpart in the runtime, resolved by name, so that nothing links against the
/// driver.
struct Driver {
#define HR_CUDA_DRIVER(function) decltype(&::cu##function) function = nullptr;
#include "backends/cuda/driver_functions.def"
#undef HR_CUDA_DRIVER
};

/// Resolved at the first call, when there is a device. Throws Error if the driver lacks a function.
[[nodiscard]] const Driver& driver();

/// Throws Error with the driver's error name and the call's source location unless `status` is success; OutOfMemory
/// if it is that.
void check(CUresult status, std::source_location where = std::source_location::current());
/// For destructors: prints the error on stderr. A driver that is being unloaded at exit is no error.
void report(CUresult status, std::source_location where = std::source_location::current()) noexcept;

}  // namespace headroom::cuda
