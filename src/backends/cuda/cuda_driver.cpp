#include <cuda_runtime_api.h>

#include <cstdio>
#include <string>

#include "backends/cuda/cuda_check.cuh"
#include "backends/cuda/driver.cuh"
#include "base/error.hpp"
#include "base/out_of_memory.hpp"

namespace headroom::cuda {
namespace {

/// The version of CUDA whose form of the functions is used.
constexpr unsigned kVersion = 12000;

template <class Function>
void find(Function& function, const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  check(cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableDefault, &result));
  if (result != cudaDriverEntryPointSuccess) fail("the NVIDIA driver has no {}; update it", name);
  function = reinterpret_cast<Function>(found);
}

Driver find_all() {
  Driver driver;
#define HR_CUDA_DRIVER(function) find(driver.function, "cu" #function);
#include "backends/cuda/driver_functions.def"
#undef HR_CUDA_DRIVER
  return driver;
}

const char* name_of(CUresult status) {
  const char* name = nullptr;
  return driver().GetErrorName(status, &name) == CUDA_SUCCESS ? name : "an error it has no name for";
}

}  // namespace

const Driver& driver() {
  static const Driver found = find_all();
  return found;
}

void check(CUresult status, std::source_location where) {
  if (status == CUDA_SUCCESS) return;
  const std::string message =
      fmt::format("CUDA's driver failed with {}, seen at {}:{}", name_of(status), where.file_name(), where.line());
  if (status == CUDA_ERROR_OUT_OF_MEMORY) throw OutOfMemory(message);
  throw Error(message);
}

void report(CUresult status, std::source_location where) noexcept {
  if (status == CUDA_SUCCESS || status == CUDA_ERROR_DEINITIALIZED) return;
  std::fprintf(stderr, "CUDA's driver failed with %s while cleaning up at %s:%u\n", name_of(status), where.file_name(),
               static_cast<unsigned>(where.line()));
}

}  // namespace headroom::cuda
