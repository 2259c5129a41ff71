#include "kernels/elementwise_cuda.hpp"

#include <algorithm>

#include "kernels/cuda/cuda_kernel.hpp"

namespace headroom {
namespace {

using cuda::CudaKernel;

KernelPlan plan(const KernelBinding& binding) {
  const std::span<const Operand> in = binding.inputs;
  const Operand& y = binding.outputs[0];
  const cuda::ElementwiseRows rows{.op = binding.spec.op,
                                   .dtype = y.type.dtype,
                                   .side = in[std::min<std::size_t>(1, in.size() - 1)].type.dtype,
                                   .scalar = scalar_of(binding.spec),
                                   .grid = cuda::longest_grid<4>(y.type.shape, elementwise_strides(in, y))};
  return {[rows](const LaunchArguments& arguments) {
    cuda::launch_elementwise(arguments.stream.native_handle(), rows, arguments.inputs.data(), arguments.outputs[0]);
  }};
}

#define HR_ANY(enumerator, title, ...)                                      \
  const Listed<CudaKernel> enumerator({.name = "cuda." #title,              \
                                       .op = Op::enumerator,                \
                                       .supports = cuda::supports_elements, \
                                       .in_place = true,                    \
                                       .plan = plan});
#include "ir/elementwise.def"

}  // namespace
}  // namespace headroom
