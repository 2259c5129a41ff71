#include "kernels/norm_cuda.hpp"

#include "kernels/cuda/cuda_kernel.hpp"
#include "kernels/cuda_kernels.hpp"

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

Support supports_norm_modulate_quantize(const OpSpec& spec) {
  if (Support rejection = supports_row_major(spec)) return rejection;
  if (Support rejection = cuda::supports_f8_rows(spec)) return rejection;
  const DType x = spec.inputs[0].dtype, side = spec.inputs[1].dtype;
  if (side != x && side != DType::kF32) return Rejection{fmt::format("takes {} or f32 beside {}, not {}", x, x, side)};
  return std::nullopt;
}

cuda::Norm norm_form(Op op) {
  if (op == Op::kLayerNorm) return cuda::Norm::kLayer;
  if (op == Op::kRmsNorm) return cuda::Norm::kRms;
  return op == Op::kNormModulate ? cuda::Norm::kModulate : cuda::Norm::kModulateQuantize;
}

/// For each row of a tensor of this shape nothing.
Shape no_strides(const Shape& shape) {
  Shape strides = shape;
  for (int axis = 0; axis < shape.rank(); ++axis) strides.set(axis, 0);
  return strides;
}

KernelPlan plan_norm(const KernelBinding& binding) {
  const std::span<const Operand> in = binding.inputs;
  const Operand& y = binding.outputs[0];
  const Shape& shape = y.type.shape;
  // layer_norm has nothing beside x, rms_norm one vector, norm_modulate two.
  const auto side = [&](std::size_t index) {
    const std::size_t last = in.size() - 1;
    return broadcast_strides(in[std::min(index, last)], shape);
  };
  const bool is_quantized = binding.outputs.size() > 1;
  const Shape row_scales = is_quantized ? cuda::one_a_row(binding.outputs[1].strides) : no_strides(shape);
  const cuda::NormRows rows{
      .form = norm_form(binding.spec.op),
      .dtype = in[0].type.dtype,
      .side = in.back().type.dtype,
      .eps = static_cast<float>(binding.spec.attributes.get_float("eps")),
      .grid = cuda::to_grid(rows_of<5>(shape, {in[0].strides, side(1), side(2), y.strides, row_scales}))};
  const std::size_t scale = std::min<std::size_t>(1, in.size() - 1);
  const std::size_t shift = std::min<std::size_t>(2, in.size() - 1);
  return {[rows, scale, shift, is_quantized](const LaunchArguments& arguments) {
    cuda::launch_norm(arguments.stream.native_handle(), rows, arguments.inputs[0], arguments.inputs[scale],
                      arguments.inputs[shift], arguments.outputs[0],
                      is_quantized ? static_cast<float*>(arguments.outputs[1]) : nullptr);
  }};
}

Support supports_gate_residual_norm(const OpSpec& spec) {
  if (Support rejection = supports_norm(spec)) return rejection;
  if (spec.op == Op::kGateResidualNormQuantize && spec.attributes.get_dtype("dtype") != DType::kF8E4M3)
    return Rejection{fmt::format("quantizes to f8e4m3, not {}", spec.attributes.get_dtype("dtype"))};
  if (spec.inputs[3].dtype != spec.inputs[1].dtype)
    return Rejection{
        fmt::format("takes vectors of one dtype, not {} and {}", spec.inputs[1].dtype, spec.inputs[3].dtype)};
  return std::nullopt;
}

/// Gate, scale and shift, which with one token are shaped like the sum.
constexpr std::uint32_t kVectors = 1U << 1U | 1U << 3U | 1U << 4U;

KernelPlan plan_gate_residual_norm(const KernelBinding& binding) {
  const std::span<const Operand> in = binding.inputs;  // residual, gate, x, scale, shift
  const std::span<const Operand> out = binding.outputs;
  const Shape& shape = in[2].type.shape;
  const bool is_quantized = out.size() > 2;
  const Shape row_scales = is_quantized ? cuda::one_a_row(out[2].strides) : no_strides(shape);
  const auto beside = [&](std::size_t index) { return broadcast_strides(in[index], shape); };
  // One loop over all operands, so that both halves count rows alike.
  const RowLoop<8> loop = rows_of<8>(shape, {in[2].strides, beside(3), beside(4), out[1].strides, row_scales,
                                             in[0].strides, beside(1), out[0].strides});
  const cuda::GridRows<8> grid = cuda::to_grid(loop);
  cuda::GatedNormRows rows{.norm = {.form = is_quantized ? cuda::Norm::kModulateQuantize : cuda::Norm::kModulate,
                                    .dtype = in[2].type.dtype,
                                    .side = in[1].type.dtype,
                                    .eps = static_cast<float>(binding.spec.attributes.get_float("eps")),
                                    .grid = cuda::part_of<5>(grid, 0)},
                           .gated = cuda::part_of<3>(grid, 5)};
  return {[rows, is_quantized](const LaunchArguments& arguments) {
    cuda::launch_gated_norm(arguments.stream.native_handle(), rows,
                            {.residual = arguments.inputs[0],
                             .gate = arguments.inputs[1],
                             .x = arguments.inputs[2],
                             .scale = arguments.inputs[3],
                             .shift = arguments.inputs[4],
                             .sum = arguments.outputs[0],
                             .y = arguments.outputs[1],
                             .row_scales = is_quantized ? static_cast<float*>(arguments.outputs[2]) : nullptr});
  }};
}

KernelPlan plan_softmax(const KernelBinding& binding) {
  const Operand& y = binding.outputs[0];
  const cuda::SoftmaxRows rows{.dtype = y.type.dtype,
                               .grid = cuda::to_grid(rows_of<2>(y.type.shape, {binding.inputs[0].strides, y.strides}))};
  return {[rows](const LaunchArguments& arguments) {
    cuda::launch_softmax(arguments.stream.native_handle(), rows, arguments.inputs[0], arguments.outputs[0]);
  }};
}

KernelTraits along_rows(std::string_view name, Op op, KernelPlan (*plan)(const KernelBinding&)) {
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
const Kernel& cuda_norm_modulate_quantize() {
  static const CudaKernel kernel({.name = "cuda.norm_modulate_quantize",
                                  .op = Op::kNormModulateQuantize,
                                  .supports = supports_norm_modulate_quantize,
                                  .plan = plan_norm});
  return kernel;
}
const Kernel& cuda_gate_residual_norm() {
  static const CudaKernel kernel({.name = "cuda.gate_residual_norm",
                                  .op = Op::kGateResidualNorm,
                                  .supports = supports_gate_residual_norm,
                                  .in_place = true,
                                  .kept = kVectors,
                                  .plan = plan_gate_residual_norm});
  return kernel;
}
const Kernel& cuda_gate_residual_norm_quantize() {
  static const CudaKernel kernel({.name = "cuda.gate_residual_norm_quantize",
                                  .op = Op::kGateResidualNormQuantize,
                                  .supports = supports_gate_residual_norm,
                                  .in_place = true,
                                  .kept = kVectors,
                                  .plan = plan_gate_residual_norm});
  return kernel;
}
const Kernel& cuda_softmax() {
  static const CudaKernel kernel(along_rows("cuda.softmax", Op::kSoftmax, plan_softmax));
  return kernel;
}

}  // namespace headroom
