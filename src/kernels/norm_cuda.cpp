#include "kernels/norm_cuda.hpp"

#include "kernels/cuda/cuda_kernel.hpp"
#include "kernels/cuda_kernels.hpp"

namespace headroom {
namespace {

using cuda::CudaKernel;

/// The longest row that device code counts in an int.
constexpr std::int64_t kMostRowLength = std::int64_t{1} << 30;

Support supports_norm(const OpSpec& spec) {
  if (Support rejection = cuda::supports_rows(spec)) return rejection;
  if (spec.outputs[0].shape[-1] > kMostRowLength)
    return Rejection{fmt::format("takes rows of up to {} elements, not {}", kMostRowLength, spec.outputs[0].shape[-1])};
  return std::nullopt;
}

cuda::Norm norm_form(Op op) {
  if (op == Op::kLayerNorm) return cuda::Norm::kLayer;
  return op == Op::kRmsNorm ? cuda::Norm::kRms : cuda::Norm::kModulate;
}

cuda::Plan plan_norm(const cuda::Binding& binding) {
  const std::span<const Operand> in = binding.inputs;
  const Operand& y = binding.outputs[0];
  const Shape& shape = y.type.shape;
  // layer_norm has nothing beside x, rms_norm one vector, norm_modulate two.
  const auto side = [&](std::size_t index) {
    const std::size_t last = in.size() - 1;
    return broadcast_strides(in[std::min(index, last)], shape);
  };
  const cuda::NormRows rows{.form = norm_form(binding.spec.op),
                            .is_bf16 = y.type.dtype == DType::kBF16,
                            .is_side_bf16 = in.back().type.dtype == DType::kBF16,
                            .eps = static_cast<float>(binding.spec.attributes.get_float("eps")),
                            .grid = cuda::to_grid(rows_of<4>(shape, {in[0].strides, side(1), side(2), y.strides}))};
  const std::size_t scale = std::min<std::size_t>(1, in.size() - 1);
  const std::size_t shift = std::min<std::size_t>(2, in.size() - 1);
  return {[rows, scale, shift](const LaunchArguments& arguments) {
    cuda::launch_norm(arguments.stream.native_handle(), rows, arguments.inputs[0], arguments.inputs[scale],
                      arguments.inputs[shift], arguments.outputs[0]);
  }};
}

cuda::Plan plan_softmax(const cuda::Binding& binding) {
  const Operand& y = binding.outputs[0];
  const cuda::SoftmaxRows rows{.is_bf16 = y.type.dtype == DType::kBF16,
                               .grid = cuda::to_grid(rows_of<2>(y.type.shape, {binding.inputs[0].strides, y.strides}))};
  return {[rows](const LaunchArguments& arguments) {
    cuda::launch_softmax(arguments.stream.native_handle(), rows, arguments.inputs[0], arguments.outputs[0]);
  }};
}

cuda::Traits along_rows(std::string_view name, Op op, cuda::Plan (*plan)(const cuda::Binding&)) {
  return {.name = name, .op = op, .supports = supports_norm, .in_place = true, .plan = plan};
}

}  // namespace

const Kernel& cuda_layer_norm() {
  static const CudaKernel kernel(along_rows("cuda.layer_norm", Op::kLayerNorm, plan_norm));
  return kernel;
}
const Kernel& cuda_rms_norm() {
  static const CudaKernel kernel(along_rows("cuda.rms_norm", Op::kRmsNorm, plan_norm));
  return kernel;
}
const Kernel& cuda_norm_modulate() {
  static const CudaKernel kernel(along_rows("cuda.norm_modulate", Op::kNormModulate, plan_norm));
  return kernel;
}
const Kernel& cuda_softmax() {
  static const CudaKernel kernel(along_rows("cuda.softmax", Op::kSoftmax, plan_softmax));
  return kernel;
}

}  // namespace headroom
