// Stands in for the CUDA backend in a build without CUDA, so that callers need no #ifdef.

#include "backends/cuda/cuda_backend.hpp"
#include "base/error.hpp"

namespace headroom {

std::unique_ptr<Backend> make_cuda_backend() {
  fail(
      "device cuda was asked for, but this build has no CUDA support; choose device cpu or build with the CUDA "
      "toolkit");
}

}  // namespace headroom
