#include <vector>

#include "kernels/cuda/copy_rows.hpp"
#include "kernels/movement.hpp"

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
  return {[parts = parts_of(binding)](const LaunchArguments& arguments) {
    for (std::size_t i = 0; i < parts.size(); ++i)
      cuda::launch_copy(arguments.stream.native_handle(), parts[i].rows,
                        static_cast<const std::byte*>(arguments.inputs[i]) + parts[i].from_bytes,
                        static_cast<std::byte*>(arguments.outputs[0]) + parts[i].to_bytes);
  }};
}

KernelPlan plan_row(const KernelBinding& binding) {
  const Operand& table = binding.inputs[0];  // [n, ...]
  const std::int64_t count = table.type.shape[0];
  const std::int64_t row_bytes = table.strides[0] * static_cast<std::int64_t>(size_of(table.type.dtype));
  return {[=, rows = parts_of(binding)[0].rows](const LaunchArguments& arguments) {
    cuda::launch_copy_row(arguments.stream.native_handle(), rows, arguments.inputs[0],
                          static_cast<const std::int32_t*>(arguments.inputs[1]), count, row_bytes,
                          arguments.outputs[0]);
  }};
}

const Listed<CudaKernel> kReshape(movement_traits("cuda.reshape", Op::kReshape, plan));
const Listed<CudaKernel> kTranspose(movement_traits("cuda.transpose", Op::kTranspose, plan));
const Listed<CudaKernel> kConcat(movement_traits("cuda.concat", Op::kConcat, plan));
const Listed<CudaKernel> kSlice(movement_traits("cuda.slice", Op::kSlice, plan));
const Listed<CudaKernel> kRow(movement_traits("cuda.row", Op::kRow, plan_row));

}  // namespace
}  // namespace headroom
