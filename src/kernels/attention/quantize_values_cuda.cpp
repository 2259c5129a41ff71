#include "kernels/attention/quantize_values_cuda.hpp"

#include "kernels/core/cuda/cuda_kernel.hpp"

namespace headroom {
namespace {

using cuda::CudaKernel;

constexpr std::int64_t kValueChannelMultiple = 8;

Support supports_quantize_values(const OpSpec& spec) {
  if (Support rejection = supports_row_major(spec)) return rejection;
  const TensorType& v = spec.inputs[0];
  if (v.dtype != DType::kBF16 && v.dtype != DType::kF16)
    return Rejection{fmt::format("takes bf16 or f16, not {}", v.dtype)};
  if (v.shape[3] % kValueChannelMultiple != 0)
    return Rejection{fmt::format("takes channels in multiples of {}, not {}", kValueChannelMultiple, v.shape[3])};
  if (v.shape.numel() == 0 || spec.outputs[0].shape.numel() > INT32_MAX) return Rejection{"takes 1 to 2^31 elements"};
  return std::nullopt;
}

KernelPlan plan_quantize_values(const KernelBinding& binding) {
  const Operand& v = binding.inputs[0];
  const Shape& shape = v.type.shape;
  const auto as_int = [](std::int64_t extent) { return static_cast<int>(extent); };
  const cuda::ValueRows rows{.dtype = v.type.dtype,
                             .batch = as_int(shape[0]),
                             .heads = as_int(shape[1]),
                             .tokens = as_int(shape[2]),
                             .channels = as_int(shape[3]),
                             .padded = as_int(binding.outputs[0].type.shape[3]),
                             .batch_stride = v.strides[0],
                             .head_stride = v.strides[1],
                             .token_stride = v.strides[2],
                             .has_clusters = binding.target.compute_capability == 90};
  return {[rows](const LaunchArguments& arguments) {
    cuda::launch_quantize_values(arguments.stream.native_handle(), rows, arguments.input(0),
                                 arguments.output<std::uint8_t>(0), arguments.output<float>(1));
  }};
}

}  // namespace

const Kernel& cuda_quantize_values() {
  static const CudaKernel kernel({.name = "cuda.quantize_values",
                                  .op = Op::kQuantizeValues,
                                  .supports = supports_quantize_values,
                                  .strides = {StrideRule::kInnerDense, 16},
                                  .output_strides = StrideRule(StrideRule::kDense, 16),
                                  .plan = plan_quantize_values});
  return kernel;
}

}  // namespace headroom
