#include "backends/cuda/cuda_check.cuh"

#include <atomic>
#include <cstdio>
#include <cstring>

#include "base/error.hpp"
#include "base/out_of_memory.hpp"

namespace headroom::cuda {
namespace {

const char* file_name(const std::source_location& where) {
  const char* const slash = std::strrchr(where.file_name(), '/');
  return slash == nullptr ? where.file_name() : slash + 1;
}

}  // namespace

void check(cudaError_t status, std::source_location where) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // so that the next call does not report it again
  const std::string message = fmt::format("CUDA failed with {} ({}), seen at {}:{}", cudaGetErrorName(status),
                                          cudaGetErrorString(status), file_name(where), where.line());
  if (status == cudaErrorMemoryAllocation) throw OutOfMemory(message);
  throw Error(message);
}

void report(cudaError_t status, std::source_location where) noexcept {
  if (status == cudaSuccess || status == cudaErrorCudartUnloading) return;
  static std::atomic<cudaError_t> said = cudaSuccess;
  if (said.exchange(status) == status) return;
  std::fprintf(stderr, "CUDA failed with %s (%s) while cleaning up at %s:%u\n", cudaGetErrorName(status),
               cudaGetErrorString(status), file_name(where), static_cast<unsigned>(where.line()));
}

}  // namespace headroom::cuda
