#include "kernels/elementwise_cuda.hpp"

#include "kernels/cuda/cuda_kernel.hpp"
#include "kernels/cuda_kernels.hpp"

namespace headroom {
namespace {

using cuda::CudaKernel;

cuda::Unary unary_form(const OpSpec& spec) {
  switch (spec.op) {
    case Op::kAddScalar:
      return cuda::Unary::kAddScalar;
    case Op::kMulScalar:
      return cuda::Unary::kMulScalar;
    case Op::kRelu:
      return cuda::Unary::kRelu;
    case Op::kSilu:
      return cuda::Unary::kSilu;
    default:
      HR_CHECK(spec.op == Op::kGelu);
  }
  return spec.attributes.get_text("approximate") == "tanh" ? cuda::Unary::kGeluTanh : cuda::Unary::kGeluErf;
}

cuda::Plan plan_unary(const cuda::Binding& binding) {
  const Operand& y = binding.outputs[0];
  const bool has_scalar = binding.spec.op == Op::kAddScalar || binding.spec.op == Op::kMulScalar;
  const cuda::UnaryRows rows{
      .form = unary_form(binding.spec),
      .element = cuda::element_of(y.type.dtype),
      .scalar = has_scalar ? static_cast<float>(binding.spec.attributes.get_float("value")) : 0.0F,
      .grid = cuda::longest_grid<2>(y.type.shape, {binding.inputs[0].strides, y.strides})};
  return {[rows](const LaunchArguments& arguments) {
    cuda::launch_unary(arguments.stream.native_handle(), rows, arguments.inputs[0], arguments.outputs[0]);
  }};
}

cuda::Plan plan_binary(const cuda::Binding& binding) {
  const Operand& y = binding.outputs[0];
  const Shape& shape = y.type.shape;
  const Op op = binding.spec.op;
  const cuda::BinaryRows rows{
      .form = op == Op::kAdd   ? cuda::Binary::kAdd
              : op == Op::kSub ? cuda::Binary::kSub
                               : cuda::Binary::kMul,
      .element = cuda::element_of(y.type.dtype),
      .grid = cuda::longest_grid<3>(shape, {broadcast_strides(binding.inputs[0], shape),
                                            broadcast_strides(binding.inputs[1], shape), y.strides})};
  return {[rows](const LaunchArguments& arguments) {
    cuda::launch_binary(arguments.stream.native_handle(), rows, arguments.inputs[0], arguments.inputs[1],
                        arguments.outputs[0]);
  }};
}

cuda::Plan plan_gate_residual(const cuda::Binding& binding) {
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

cuda::Traits elementwise(std::string_view name, Op op, cuda::Plan (*plan)(const cuda::Binding&)) {
  return {.name = name, .op = op, .supports = cuda::supports_elements, .in_place = true, .plan = plan};
}

}  // namespace

const Kernel& cuda_add() {
  static const CudaKernel kernel(elementwise("cuda.add", Op::kAdd, plan_binary));
  return kernel;
}
const Kernel& cuda_sub() {
  static const CudaKernel kernel(elementwise("cuda.sub", Op::kSub, plan_binary));
  return kernel;
}
const Kernel& cuda_mul() {
  static const CudaKernel kernel(elementwise("cuda.mul", Op::kMul, plan_binary));
  return kernel;
}
const Kernel& cuda_add_scalar() {
  static const CudaKernel kernel(elementwise("cuda.add_scalar", Op::kAddScalar, plan_unary));
  return kernel;
}
const Kernel& cuda_mul_scalar() {
  static const CudaKernel kernel(elementwise("cuda.mul_scalar", Op::kMulScalar, plan_unary));
  return kernel;
}
const Kernel& cuda_relu() {
  static const CudaKernel kernel(elementwise("cuda.relu", Op::kRelu, plan_unary));
  return kernel;
}
const Kernel& cuda_silu() {
  static const CudaKernel kernel(elementwise("cuda.silu", Op::kSilu, plan_unary));
  return kernel;
}
const Kernel& cuda_gelu() {
  static const CudaKernel kernel(elementwise("cuda.gelu", Op::kGelu, plan_unary));
  return kernel;
}
const Kernel& cuda_gate_residual() {
  static const CudaKernel kernel(elementwise("cuda.gate_residual", Op::kGateResidual, plan_gate_residual));
  return kernel;
}

}  // namespace headroom
