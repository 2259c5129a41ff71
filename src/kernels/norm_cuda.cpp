#include "kernels/norm_cuda.hpp"

#include "kernels/cuda/cuda_kernel.hpp"

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
  const bool is_quantized = op == Op::kNormModulateQuantize || op == Op::kGateResidualNormQuantize;
  return is_quantized ? cuda::Norm::kModulateQuantize : cuda::Norm::kModulate;
}

/// Of all norms: x, what stands beside it, and in front of these residual and gate.
KernelPlan plan_norm(const KernelBinding& binding) {
  const std::span<const Operand> in = binding.inputs, out = binding.outputs;
  const bool is_gated = in.size() == 5;
  const std::size_t x = is_gated ? 2 : 0, y = is_gated ? 1 : 0;
  const bool is_quantized = out.size() > y + 1;
  const Shape& shape = in[x].type.shape;
  const Shape none = broadcast_strides(Operand{}, shape);
  const auto beside = [&](std::size_t k) { return k < in.size() ? broadcast_strides(in[k], shape) : none; };
  const cuda::NormRows rows{
      .form = norm_form(binding.spec.op),
      .dtype = in[x].type.dtype,
      .side = in.back().type.dtype,
      .eps = static_cast<float>(binding.spec.attributes.get_float("eps")),
      .grid = cuda::to_grid(
          rows_of<8>(shape, {in[x].strides, beside(x + 1), beside(x + 2), out[y].strides,
                             is_quantized ? cuda::one_a_row(out[y + 1].strides) : none, is_gated ? in[0].strides : none,
                             is_gated ? beside(1) : none, is_gated ? out[0].strides : none}))};
  return {[=](const LaunchArguments& arguments) {
    cuda::launch_norm(arguments.stream.native_handle(), rows,
                      {.x = arguments.input(x),
                       .scale = arguments.optional_input(x + 1),
                       .shift = arguments.optional_input(x + 2),
                       .y = arguments.output(y),
                       .row_scales = is_quantized ? arguments.output<float>(y + 1) : nullptr,
                       .residual = is_gated ? arguments.input(0) : nullptr,
                       .gate = is_gated ? arguments.input(1) : nullptr,
                       .sum = is_gated ? arguments.output(0) : nullptr});
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
const Listed<CudaKernel> kSoftmax(along_rows("cuda.softmax", Op::kSoftmax, plan_softmax));
const Listed<CudaKernel> kLayerNorm(along_rows("cuda.layer_norm", Op::kLayerNorm, plan_norm));
const Listed<CudaKernel> kRmsNorm(along_rows("cuda.rms_norm", Op::kRmsNorm, plan_norm));
const Listed<CudaKernel> kNormModulate(along_rows("cuda.norm_modulate", Op::kNormModulate, plan_norm));
const Listed<CudaKernel> kNormModulateQuantize({.name = "cuda.norm_modulate_quantize",
                                                .op = Op::kNormModulateQuantize,
                                                .supports = supports_norm_modulate_quantize,
                                                .plan = plan_norm});

KernelTraits of_a_sum(std::string_view name, Op op) {
  return {.name = name,
          .op = op,
          .supports = supports_gate_residual_norm,
          .in_place = true,
          .kept = kVectors,
          .plan = plan_norm};
}
const Listed<CudaKernel> kGateResidualNorm(of_a_sum("cuda.gate_residual_norm", Op::kGateResidualNorm));
const Listed<CudaKernel> kGateResidualNormQuantize(of_a_sum("cuda.gate_residual_norm_quantize",
                                                            Op::kGateResidualNormQuantize));

}  // namespace
}  // namespace headroom
