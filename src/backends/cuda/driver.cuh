#pragma once

#include <cuda.h>

#include <source_location>

namespace headroom::cuda {

/// Functions of the driver for what the runtime has none: asked for by name, so that nothing links against the driver.
struct Driver {
#define HR_CUDA_DRIVER(function) decltype(&::cu##function) function = nullptr;
#include "backends/cuda/driver_functions.def"
#undef HR_CUDA_DRIVER
};

/// Found at the first call, when there is a device. Throws Error where the driver lacks one.
[[nodiscard]] const Driver& driver();

/// Throws Error with the driver's name for it, and where the call stands, unless `status` is success; OutOfMemory where
/// that is what it says.
void check(CUresult status, std::source_location where = std::source_location::current());
/// The form for destructors: says on stderr what went wrong. A driver that is being unloaded at exit is no error.
void report(CUresult status, std::source_location where = std::source_location::current()) noexcept;

}  // namespace headroom::cuda
