#include "kernels/norm/norm_cuda.hpp"

#include "kernels/core/cuda/cuda_kernel.hpp"

namespace headroom {
namespace {

using cuda::CudaKernel;

Support supports_norm(const OpSpec& spec) {
  if (Support rejection = cuda::supports_rows(spec)) return rejection;
  if (spec.outputs[0].shape[-1] > cuda::kMostRowLength)
    return Rejection{
        fmt::format("takes rows of up to {} elements, not {}", cuda::kMostRowLength, spec.outputs[0].shape[-1])};
  return std::nullopt;
}

cuda::Norm norm_form(Op op) {
  if (op == Op::kLayerNorm) return cuda::Norm::kLayer;
  return op == Op::kRmsNorm ? cuda::Norm::kRms : cuda::Norm::kModulate;
}

KernelPlan plan_norm(const KernelBinding& binding) {
  const std::span<const Operand> in = binding.inputs;
  const Operand& y = binding.outputs[0];
  const Shape& shape = y.type.shape;
  const auto vector_strides = [&](std::size_t k) {
    return broadcast_strides(k < in.size() ? in[k] : Operand{}, shape);
  };
  const cuda::NormRows rows{
      .form = norm_form(binding.spec.op),
      .dtype = y.type.dtype,
      .side = in.back().type.dtype,
      .eps = static_cast<float>(binding.spec.attributes[attr::kEps]),
      .grid = cuda::to_grid(rows_of<4>(shape, {in[0].strides, vector_strides(1), vector_strides(2), y.strides}))};
  return {[=](const LaunchArguments& arguments) {
    cuda::launch_norm(arguments.stream.native_handle(), rows,
                      {.x = arguments.input(0),
                       .scale = arguments.optional_input(1),
                       .shift = arguments.optional_input(2),
                       .y = arguments.output(0)});
  }};
}

KernelPlan plan_softmax(const KernelBinding& binding) {
  const Operand& y = binding.outputs[0];
  const cuda::SoftmaxRows rows{.dtype = y.type.dtype,
                               .grid = cuda::to_grid(rows_of<2>(y.type.shape, {binding.inputs[0].strides, y.strides}))};
  return {[rows](const LaunchArguments& arguments) {
    cuda::launch_softmax(arguments.stream.native_handle(), rows, arguments.input(0), arguments.output(0));
  }};
}

KernelTraits along_rows(std::string_view name, Op op, decltype(KernelTraits::plan) plan) {
  return {.name = name, .op = op, .supports = supports_norm, .in_place = true, .plan = plan};
}

}  // namespace

std::span<const CudaKernel> cuda_norms() {
  static const CudaKernel kernels[] = {
      CudaKernel(along_rows("cuda.softmax", Op::kSoftmax, plan_softmax)),
      CudaKernel(along_rows("cuda.layer_norm", Op::kLayerNorm, plan_norm)),
      CudaKernel(along_rows("cuda.rms_norm", Op::kRmsNorm, plan_norm)),
      CudaKernel(along_rows("cuda.norm_modulate", Op::kNormModulate, plan_norm)),
  };
  return kernels;
}

}  // namespace headroom
