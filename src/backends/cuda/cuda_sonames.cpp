#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn_version.h>
#include <fmt/format.h>

#include "backends/cuda/sonames.hpp"

namespace headroom {

std::optional<GpuSonames> gpu_sonames() {
  constexpr int kMajor = CUDART_VERSION / 1000;  // also NVRTC's and CUPTI's: one toolkit has all three
  return GpuSonames{.cublaslt = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR),
                    .cudnn = fmt::format("libcudnn.so.{}", CUDNN_MAJOR),
                    .nvrtc = fmt::format("libnvrtc.so.{}", kMajor),
                    .cupti = fmt::format("libcupti.so.{}", kMajor),
                    .cuda_major = kMajor};
}

}  // namespace headroom
