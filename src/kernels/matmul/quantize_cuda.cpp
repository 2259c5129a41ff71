#include "kernels/matmul/quantize_cuda.hpp"

#include "kernels/core/cuda/cuda_kernel.hpp"

namespace headroom {
namespace {

using cuda::CudaKernel;

Support supports_quantize(const OpSpec& spec) {
  if (Support rejection = supports_row_major(spec)) return rejection;
  return cuda::supports_quantized_rows(spec);
}

KernelPlan plan_quantize(const KernelBinding& binding) {
  const Operand& x = binding.inputs[0];
  const cuda::QuantizeRows rows{
      .dtype = x.type.dtype,
      .to = binding.outputs[0].type.dtype,
      .grid = cuda::to_grid(rows_of<3>(
          x.type.shape, {x.strides, binding.outputs[0].strides, cuda::one_a_row(binding.outputs[1].strides)}))};
  return {[rows](const LaunchArguments& arguments) {
    cuda::launch_quantize(arguments.stream.native_handle(), rows, arguments.input(0), arguments.output(0),
                          arguments.output<float>(1));
  }};
}

}  // namespace

const Kernel& cuda_quantize() {
  static const CudaKernel kernel(
      {.name = "cuda.quantize", .op = Op::kQuantize, .supports = supports_quantize, .plan = plan_quantize});
  return kernel;
}

}  // namespace headroom
