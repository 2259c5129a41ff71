#include "kernels/elementwise/cast_cuda.hpp"

#include "kernels/core/cuda/cuda_kernel.hpp"

namespace headroom {
namespace {

using cuda::CudaKernel;

KernelPlan plan_cast(const KernelBinding& binding) {
  const Operand& x = binding.inputs[0];
  const Operand& y = binding.outputs[0];
  const cuda::CastRows rows{
      .from = x.type.dtype, .to = y.type.dtype, .grid = cuda::longest_grid<2>(y.type.shape, {x.strides, y.strides})};
  return {[rows](const LaunchArguments& arguments) {
    cuda::launch_cast(arguments.stream.native_handle(), rows, arguments.input(0), arguments.output(0));
  }};
}

Support supports_rope_table(const OpSpec& spec) {
  const std::size_t axes = spec.attributes[attr::kAxes].size();
  if (axes > cuda::kMostRopeAxes)
    return Rejection{fmt::format("takes positions of up to {} axes, not {}", cuda::kMostRopeAxes, axes)};
  return std::nullopt;
}

KernelPlan plan_rope_table(const KernelBinding& binding) {
  const Operand& ids = binding.inputs[0];  // [s, axes]
  cuda::RopeTable table{.ids = ids.type.dtype,
                        .positions = ids.type.shape[0],
                        .theta = binding.spec.attributes[attr::kTheta],
                        .ids_strides = {ids.strides[0], ids.strides[1]},
                        .cos_row = binding.outputs[0].strides[0],
                        .sin_row = binding.outputs[1].strides[0]};
  for (const std::int64_t extent : binding.spec.attributes[attr::kAxes]) {
    table.extents[table.axes++] = static_cast<int>(extent / 2);
    table.half += static_cast<int>(extent / 2);
  }
  return {[table](const LaunchArguments& arguments) {
    cuda::launch_rope_table(arguments.stream.native_handle(), table, arguments.input(0), arguments.output<float>(0),
                            arguments.output<float>(1));
  }};
}

KernelPlan plan_timestep_embedding(const KernelBinding& binding) {
  const auto& attributes = binding.spec.attributes;
  const Operand& time = binding.inputs[0];
  const cuda::TimestepEmbedding embedding{.time = time.type.dtype,
                                          .batch = time.type.shape[0],
                                          .half = static_cast<int>(attributes[attr::kDim] / 2),
                                          .scale = attributes[attr::kScale],
                                          .max_period = attributes[attr::kMaxPeriod],
                                          .time_stride = time.strides[0],
                                          .row = binding.outputs[0].strides[0]};
  return {[embedding](const LaunchArguments& arguments) {
    cuda::launch_timestep_embedding(arguments.stream.native_handle(), embedding, arguments.input(0),
                                    arguments.output<float>(0));
  }};
}

}  // namespace

const Kernel& cuda_cast() {
  static const CudaKernel kernel(
      {.name = "cuda.cast", .op = Op::kCast, .supports = supports_all_types, .plan = plan_cast});
  return kernel;
}

const Kernel& cuda_rope_table() {
  static const CudaKernel kernel({.name = "cuda.rope_table",
                                  .op = Op::kRopeTable,
                                  .supports = supports_rope_table,
                                  .compute = DType::kF64,
                                  .plan = plan_rope_table});
  return kernel;
}

const Kernel& cuda_timestep_embedding() {
  static const CudaKernel kernel({.name = "cuda.timestep_embedding",
                                  .op = Op::kTimestepEmbedding,
                                  .supports = supports_all_types,
                                  .compute = DType::kF64,
                                  .plan = plan_timestep_embedding});
  return kernel;
}

}  // namespace headroom
