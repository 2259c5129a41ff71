#pragma once

#include <optional>
#include <string>

namespace headroom {

/// The libraries that this program opens on a GPU, by the names and majors that it was compiled for.
struct GpuSonames {
  std::string cublaslt, cudnn, nvrtc, cupti;
  int cuda_major = 0;
};
/// Nothing in a build without CUDA.
[[nodiscard]] std::optional<GpuSonames> gpu_sonames();

}  // namespace headroom
