#include "kernels/elementwise_cuda.hpp"

#include <algorithm>
#include <array>

#include "kernels/cuda/cuda_kernel.hpp"
#include "kernels/cuda_kernels.hpp"

namespace headroom {
namespace {

using cuda::CudaKernel;

KernelPlan plan_unary(const KernelBinding& binding) {
  const Operand& y = binding.outputs[0];
  const cuda::UnaryRows rows{.op = binding.spec.op,
                             .element = cuda::element_of(y.type.dtype),
                             .scalar = scalar_of(binding.spec),
                             .grid = cuda::longest_grid<2>(y.type.shape, {binding.inputs[0].strides, y.strides})};
  return {[rows](const LaunchArguments& arguments) {
    cuda::launch_unary(arguments.stream.native_handle(), rows, arguments.inputs[0], arguments.outputs[0]);
  }};
}

KernelPlan plan_binary(const KernelBinding& binding) {
  const Operand& y = binding.outputs[0];
  const Shape& shape = y.type.shape;
  const cuda::BinaryRows rows{
      .op = binding.spec.op,
      .element = cuda::element_of(y.type.dtype),
      .grid = cuda::longest_grid<3>(shape, {broadcast_strides(binding.inputs[0], shape),
                                            broadcast_strides(binding.inputs[1], shape), y.strides})};
  return {[rows](const LaunchArguments& arguments) {
    cuda::launch_binary(arguments.stream.native_handle(), rows, arguments.inputs[0], arguments.inputs[1],
                        arguments.outputs[0]);
  }};
}

KernelPlan plan_gate_residual(const KernelBinding& binding) {
  const std::span<const Operand> in = binding.inputs;
  const Operand& y = binding.outputs[0];
  const Shape& shape = y.type.shape;
  const cuda::GateRows rows{
      .element = cuda::element_of(y.type.dtype),
      .gate = cuda::element_of(in[1].type.dtype),
      .grid = cuda::longest_grid<4>(shape, {in[0].strides, broadcast_strides(in[1], shape), in[2].strides, y.strides})};
  return {[rows](const LaunchArguments& arguments) {
    cuda::launch_gate_residual(arguments.stream.native_handle(), rows, arguments.inputs[0], arguments.inputs[1],
                               arguments.inputs[2], arguments.outputs[0]);
  }};
}

CudaKernel elementwise(std::string_view name, Op op, KernelPlan (*plan)(const KernelBinding&)) {
  return CudaKernel({.name = name, .op = op, .supports = cuda::supports_elements, .in_place = true, .plan = plan});
}

}  // namespace

const Kernel& cuda_elementwise(Op op) {
  static const std::array kKernels = {
#define HR_UNARY(enumerator, name, ...) elementwise("cuda." #name, Op::enumerator, plan_unary),
#define HR_SCALAR HR_UNARY
#define HR_BINARY(enumerator, name, ...) elementwise("cuda." #name, Op::enumerator, plan_binary),
#include "ir/elementwise.def"
  };
  return *std::ranges::find(kKernels, op, &Kernel::op);
}

const Kernel& cuda_gate_residual() {
  static const CudaKernel kernel = elementwise("cuda.gate_residual", Op::kGateResidual, plan_gate_residual);
  return kernel;
}

}  // namespace headroom
