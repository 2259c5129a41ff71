#include "kernels/rope_cuda.hpp"

#include "kernels/cuda/cuda_kernel.hpp"
#include "kernels/cuda_kernels.hpp"

namespace headroom {
namespace {

using cuda::CudaKernel;

Support supports_rope(const OpSpec& spec) {
  if (Support rejection = cuda::supports_rows(spec)) return rejection;
  const std::int64_t length = spec.outputs[0].shape[-1];
  if (length > cuda::kMostRopeLength)
    return Rejection{fmt::format("takes heads of up to {} elements, not {}", cuda::kMostRopeLength, length)};
  return std::nullopt;
}

cuda::Plan plan_rope(const cuda::Binding& binding) {
  const std::span<const Operand> in = binding.inputs;
  const Shape& shape = in[0].type.shape;  // [..., s, d]
  Shape cos = shape;
  for (int axis = 0; axis < shape.rank(); ++axis) cos.set(axis, 0);
  Shape sin = cos;
  cos.set(-2, in[1].strides[0]);
  cos.set(-1, 1);
  sin.set(-2, in[2].strides[0]);
  sin.set(-1, 1);
  const cuda::RopeRows rows{
      .is_bf16 = in[0].type.dtype == DType::kBF16,
      .grid = cuda::to_grid(rows_of<4>(shape, {in[0].strides, cos, sin, binding.outputs[0].strides}))};
  return {[rows](const LaunchArguments& arguments) {
    cuda::launch_rope(arguments.stream.native_handle(), rows, arguments.inputs[0], nullptr,
                      static_cast<const float*>(arguments.inputs[1]), static_cast<const float*>(arguments.inputs[2]),
                      arguments.outputs[0]);
  }};
}

cuda::Plan plan_qk_norm_rope(const cuda::Binding& binding) {
  const std::span<const Operand> in = binding.inputs;
  const Shape& x = in[0].strides;               // of [b, s, heads*d]
  const Shape& y = binding.outputs[0].strides;  // of [b, heads, s, d]
  const Shape& out = binding.outputs[0].type.shape;
  // Rows in x's order: it is read front to back, and the heads of a position share its rows of cos and sin.
  const Shape extents{out[0], out[2], out[1], out[3]};  // [b, s, heads, d]
  const cuda::RopeRows rows{
      .is_bf16 = in[0].type.dtype == DType::kBF16,
      .is_weight_bf16 = in[1].type.dtype == DType::kBF16,
      .has_norm = true,
      .eps = static_cast<float>(binding.spec.attributes.get_float("eps")),
      .grid = cuda::to_grid(rows_of<4>(extents, {Shape{x[0], x[1], out[3], 1}, Shape{0, in[2].strides[0], 0, 1},
                                                 Shape{0, in[3].strides[0], 0, 1}, Shape{y[0], y[2], y[1], y[3]}}))};
  return {[rows](const LaunchArguments& arguments) {
    cuda::launch_rope(arguments.stream.native_handle(), rows, arguments.inputs[0], arguments.inputs[1],
                      static_cast<const float*>(arguments.inputs[2]), static_cast<const float*>(arguments.inputs[3]),
                      arguments.outputs[0]);
  }};
}

}  // namespace

const Kernel& cuda_rope() {
  static const CudaKernel kernel(
      {.name = "cuda.rope", .op = Op::kRope, .supports = supports_rope, .in_place = true, .plan = plan_rope});
  return kernel;
}
const Kernel& cuda_qk_norm_rope() {
  static const CudaKernel kernel(
      {.name = "cuda.qk_norm_rope", .op = Op::kQkNormRope, .supports = supports_rope, .plan = plan_qk_norm_rope});
  return kernel;
}

}  // namespace headroom
