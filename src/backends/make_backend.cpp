#include "backends/backend.hpp"
#include "backends/cpu/cpu_backend.hpp"
#include "backends/cuda/cuda_backend.hpp"
#include "base/error.hpp"

namespace headroom {

std::unique_ptr<Backend> make_backend(DeviceKind device, int threads) {
  switch (device) {
    case DeviceKind::kCpu:
      return make_cpu_backend(threads);
    case DeviceKind::kCuda:
      return make_cuda_backend();
  }
  HR_CHECK(false);
}

}  // namespace headroom
