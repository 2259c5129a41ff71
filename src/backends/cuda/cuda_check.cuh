#pragma once

#include <cuda_runtime_api.h>

#include <source_location>

namespace headroom::cuda {

/// Throws Error with the runtime's words, and where the call stands, unless `status` is success; OutOfMemory where that
/// is what it says.
void check(cudaError_t status, std::source_location where = std::source_location::current());
/// The form for destructors: says on stderr what went wrong, and not again while the same goes wrong: after a fault on
/// the device every call fails. A driver that is being unloaded at exit is no error.
void report(cudaError_t status, std::source_location where = std::source_location::current()) noexcept;

}  // namespace headroom::cuda
