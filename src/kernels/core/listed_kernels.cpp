#include "kernels/core/listed_kernels.hpp"

#include <span>

#include "kernels/core/cpu_kernel.hpp"

namespace headroom {

#define HR_CPU_KERNEL(function) const Kernel& function();
#define HR_CPU_KERNELS(function) std::span<const CpuKernel> function();
#include "kernels/all_kernels.def"

std::vector<const Kernel*> listed_cpu_kernels() {
  std::vector<const Kernel*> kernels;
#define HR_CPU_KERNEL(function) kernels.push_back(&function());
#define HR_CPU_KERNELS(function) \
  for (const Kernel& kernel : function()) kernels.push_back(&kernel);
#include "kernels/all_kernels.def"
  return kernels;
}

}  // namespace headroom
