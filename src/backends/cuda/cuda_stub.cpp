// Replaces the CUDA backend in a build without CUDA, so that callers need no #ifdef.

#include "backends/cuda/cuda_backend.hpp"
#include "backends/device.hpp"
#include "base/error.hpp"

namespace headroom {

GpuSurvey survey_gpus() {
  return {.gpus = {}, .obstacle = "this build has no CUDA support; choose device cpu or build with the CUDA toolkit"};
}

std::unique_ptr<Backend> make_cuda_backend(int index, int count) {
  (void)choose_device({.kind = DeviceKind::kCuda, .index = index, .count = count}, survey_gpus());
  HR_CHECK(false);  // there are none to choose
}

std::optional<GpuIdentity> gpu_of(const Backend& /*backend*/) { return std::nullopt; }

}  // namespace headroom
