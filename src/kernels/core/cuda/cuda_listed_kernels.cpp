#include <span>

#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/core/listed_kernels.hpp"

namespace headroom {

#define HR_CUDA_KERNEL(function) const Kernel& function();
#define HR_CUDA_KERNELS(function) std::span<const cuda::CudaKernel> function();
#include "kernels/all_kernels.def"

std::vector<const Kernel*> listed_cuda_kernels() {
  std::vector<const Kernel*> kernels;
#define HR_CUDA_KERNEL(function) kernels.push_back(&function());
#define HR_CUDA_KERNELS(function) \
  for (const Kernel& kernel : function()) kernels.push_back(&kernel);
#include "kernels/all_kernels.def"
  return kernels;
}

}  // namespace headroom
