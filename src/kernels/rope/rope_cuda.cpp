#include "kernels/rope/rope_cuda.hpp"

#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/rope/rope_positions.hpp"

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

KernelPlan plan(const KernelBinding& binding) {
  const bool has_norm = binding.spec.op == Op::kQkNormRope;
  const std::size_t weight = has_norm ? 1 : 0, tables = weight + 1;
  const RopePositions positions = rope_positions(binding);
  const cuda::RopeRows rows{.dtype = binding.inputs[0].type.dtype,
                            .weight = binding.inputs[weight].type.dtype,
                            .has_norm = has_norm,
                            .eps = has_norm ? static_cast<float>(binding.spec.attributes[attr::kEps]) : 0,
                            .heads = positions.heads,
                            .x_head = positions.x_head,
                            .y_head = positions.y_head,
                            .grid = cuda::to_grid(positions.loop)};
  return {[rows, weight, tables](const LaunchArguments& arguments) {
    cuda::launch_rope(arguments.stream.native_handle(), rows, arguments.input(0), arguments.input(weight),
                      arguments.input<float>(tables), arguments.input<float>(tables + 1), arguments.output(0));
  }};
}

}  // namespace

const Kernel& cuda_rope() {
  static const CudaKernel kernel(
      {.name = "cuda.rope", .op = Op::kRope, .supports = supports_rope, .in_place = true, .plan = plan});
  return kernel;
}

const Kernel& cuda_qk_norm_rope() {
  static const CudaKernel kernel(
      {.name = "cuda.qk_norm_rope", .op = Op::kQkNormRope, .supports = supports_rope, .plan = plan});
  return kernel;
}

}  // namespace headroom
