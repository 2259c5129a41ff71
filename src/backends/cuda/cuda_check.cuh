#pragma once

#include <cuda_runtime_api.h>

#include <source_location>

namespace headroom::cuda {

/// Throws Error with the runtime's message and the call's source location unless `status` is success; OutOfMemory if
/// it is that.
void check(cudaError_t status, std::source_location where = std::source_location::current());
/// For destructors: prints the error on stderr, and does not repeat it while the same error persists: after a fault
/// on the device every call fails. A driver that is being unloaded at exit is no error.
void report(cudaError_t status, std::source_location where = std::source_location::current()) noexcept;

}  // namespace headroom::cuda
