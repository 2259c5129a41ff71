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

KernelPlan launch_with(const cuda::RopeRows& rows, std::size_t weight, std::size_t tables) {
  return {[rows, weight, tables](const LaunchArguments& arguments) {
    cuda::launch_rope(arguments.stream.native_handle(), rows, arguments.inputs[0], arguments.inputs[weight],
                      static_cast<const float*>(arguments.inputs[tables]),
                      static_cast<const float*>(arguments.inputs[tables + 1]), arguments.outputs[0]);
  }};
}

KernelPlan plan_rope(const KernelBinding& binding) {
  const Operand& x = binding.inputs[0];
  const Operand& y = binding.outputs[0];
  // x is [..., s, d]: the axis before the positions is the heads, of which each position has its angles once.
  Shape extents = x.type.shape;
  const int rank = extents.rank();
  const bool has_heads = rank > 2;
  Shape cos = extents;
  for (int axis = 0; axis < rank; ++axis) cos.set(axis, 0);
  Shape sin = cos;
  cos.set(-2, binding.inputs[1].strides[0]);
  cos.set(-1, 1);
  sin.set(-2, binding.inputs[2].strides[0]);
  sin.set(-1, 1);
  if (has_heads) extents.set(-3, 1);
  const cuda::RopeRows rows{.dtype = x.type.dtype,
                            .weight = x.type.dtype,
                            .heads = has_heads ? x.type.shape[-3] : 1,
                            .x_head = has_heads ? x.strides[-3] : 0,
                            .y_head = has_heads ? y.strides[-3] : 0,
                            .grid = cuda::to_grid(rows_of<4>(extents, {x.strides, cos, sin, y.strides}))};
  return launch_with(rows, 0, 1);
}

KernelPlan plan_qk_norm_rope(const KernelBinding& binding) {
  const std::span<const Operand> in = binding.inputs;
  const Shape& x = in[0].strides;               // of [b, s, heads*d]
  const Shape& y = binding.outputs[0].strides;  // of [b, heads, s, d]
  const Shape& out = binding.outputs[0].type.shape;
  const Shape extents{out[0], out[2], out[3]};  // [b, s, d]
  const cuda::RopeRows rows{
      .dtype = in[0].type.dtype,
      .weight = in[1].type.dtype,
      .has_norm = true,
      .eps = static_cast<float>(binding.spec.attributes.get_float("eps")),
      .heads = out[1],
      .x_head = out[3],
      .y_head = y[1],
      .grid = cuda::to_grid(rows_of<4>(extents, {Shape{x[0], x[1], 1}, Shape{0, in[2].strides[0], 1},
                                                 Shape{0, in[3].strides[0], 1}, Shape{y[0], y[2], 1}}))};
  return launch_with(rows, 1, 2);
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
