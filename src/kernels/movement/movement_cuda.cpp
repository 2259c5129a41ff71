#include <memory>
#include <vector>

#include "kernels/core/cuda/copy_rows.hpp"
#include "kernels/movement/movement.hpp"

namespace headroom {
namespace {

using cuda::CudaKernel;

struct Part {
  cuda::CopyRows rows;
  std::int64_t from_bytes, to_bytes;
};

std::vector<Part> parts_of(const KernelBinding& binding) {
  const auto size = static_cast<std::int64_t>(size_of(binding.outputs[0].type.dtype));
  std::vector<Part> parts;
  for (const MovedPart& part : moved_parts(binding)) {
    const cuda::CopyRows rows =
        cuda::copy_rows(binding.outputs[0].type.dtype, part.extents, part.from_strides, part.to_strides);
    parts.push_back({rows, part.from_elements * size, part.to_elements * size});
  }
  return parts;
}

KernelPlan plan(const KernelBinding& binding) {
  return {[part = parts_of(binding)[0]](const LaunchArguments& arguments) {
    cuda::launch_copy(arguments.stream.native_handle(), part.rows, arguments.input<std::byte>(0) + part.from_bytes,
                      arguments.output<std::byte>(0) + part.to_bytes);
  }};
}

KernelPlan plan_concat(const KernelBinding& binding) {
  return {[parts = parts_of(binding)](const LaunchArguments& arguments) {
    std::vector<cuda::Copy> copies;
    for (std::size_t i = 0; i < parts.size(); ++i)
      copies.push_back({.rows = parts[i].rows,
                        .from = arguments.input<std::byte>(i) + parts[i].from_bytes,
                        .to = arguments.output<std::byte>(0) + parts[i].to_bytes});
    cuda::launch_copies(arguments.stream.native_handle(), copies);
  }};
}

KernelPlan plan_row(const KernelBinding& binding) {
  const Operand& table = binding.inputs[0];  // [n, ...]
  const std::int64_t count = table.type.shape[0];
  const std::int64_t row_bytes = table.strides[0] * static_cast<std::int64_t>(size_of(table.type.dtype));
  return {[=, rows = parts_of(binding)[0].rows](const LaunchArguments& arguments) {
    cuda::launch_copy_row(arguments.stream.native_handle(), rows, arguments.input(0), arguments.input<std::int32_t>(1),
                          count, row_bytes, arguments.output(0));
  }};
}

KernelPlan plan_pad(const KernelBinding& binding) {
  const DType dtype = binding.outputs[0].type.dtype;
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  std::vector<Part> margins;
  for (const FilledPart& part : margins_of(binding))
    margins.push_back(
        {cuda::copy_rows(dtype, part.extents, part.to_strides, part.to_strides), 0, part.to_elements * size});
  const std::uint64_t value = bits_of(binding.spec.attributes[attr::kValue], dtype);
  return {[=, part = parts_of(binding)[0]](const LaunchArguments& arguments) {
    auto* const y = arguments.output<std::byte>(0);
    cuda::launch_copy(arguments.stream.native_handle(), part.rows, arguments.input(0), y + part.to_bytes);
    for (const Part& margin : margins)
      cuda::launch_fill(arguments.stream.native_handle(), margin.rows, value, y + margin.to_bytes);
  }};
}

/// Runs when weights are folded, and in no recorded graph.
KernelPlan plan_constant(const KernelBinding& binding) {
  const Operand& y = binding.outputs[0];
  const auto bytes = std::make_shared<const std::vector<std::byte>>(constant_bytes(binding.spec.attributes));
  if (binding.spec.attributes[attr::kValues].size() > 1)
    return {[=](const LaunchArguments& arguments) {
      cuda::copy_to_device(arguments.stream.native_handle(), bytes->data(), arguments.output(0), bytes->size());
    }};
  const std::uint64_t value = bits_of(binding.spec.attributes[attr::kValues][0], y.type.dtype);
  const cuda::CopyRows rows = cuda::copy_rows(y.type.dtype, y.type.shape, y.strides, y.strides);
  return {[=](const LaunchArguments& arguments) {
    cuda::launch_fill(arguments.stream.native_handle(), rows, value, arguments.output(0));
  }};
}

}  // namespace

std::span<const CudaKernel> cuda_movement() {
  static const CudaKernel kernels[] = {
      CudaKernel(movement_traits("cuda.reshape", Op::kReshape, plan)),
      CudaKernel(movement_traits("cuda.transpose", Op::kTranspose, plan)),
      CudaKernel(movement_traits("cuda.concat", Op::kConcat, plan_concat)),
      CudaKernel(movement_traits("cuda.slice", Op::kSlice, plan)),
      CudaKernel(movement_traits("cuda.row", Op::kRow, plan_row)),
      CudaKernel(movement_traits("cuda.pad", Op::kPad, plan_pad)),
      CudaKernel(movement_traits("cuda.broadcast", Op::kBroadcast, plan)),
      CudaKernel(movement_traits("cuda.constant", Op::kConstant, plan_constant)),
  };
  return kernels;
}

}  // namespace headroom
