// reshape, transpose, concat, slice, row: y is a rearrangement, a join or a part of x. Any dtype, any strides (reshape:
// dense). Bytes: y's read and y's written; no arithmetic. See strided_copy.cpp for how.

#include <vector>

#include "kernels/cpu_kernel.hpp"
#include "kernels/movement.hpp"
#include "kernels/strided_copy.hpp"

namespace headroom {
namespace {

struct Part {
  StridedCopy copy;
  std::int64_t from_bytes, to_bytes;

  void run(int threads, const void* source, void* target) const {
    copy.run(threads, static_cast<const std::byte*>(source) + from_bytes, static_cast<std::byte*>(target) + to_bytes);
  }
};

std::vector<Part> parts_of(const KernelBinding& binding) {
  const std::size_t size = size_of(binding.outputs[0].type.dtype);
  const auto bytes = static_cast<std::int64_t>(size);
  std::vector<Part> parts;
  for (const MovedPart& part : moved_parts(binding))
    parts.push_back({{size, part.extents, part.from_strides, part.to_strides, binding.exceeds_cache},
                     part.from_elements * bytes,
                     part.to_elements * bytes});
  return parts;
}

KernelPlan plan(const KernelBinding& binding) {
  return {[parts = parts_of(binding), threads = binding.threads](const LaunchArguments& arguments) {
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i].run(threads, arguments.inputs[i], arguments.outputs[0]);
  }};
}

KernelPlan plan_row(const KernelBinding& binding) {
  const Operand& table = binding.inputs[0];  // [n, ...]
  const std::int64_t row_bytes = table.strides[0] * static_cast<std::int64_t>(size_of(table.type.dtype));
  const std::int64_t rows = table.type.shape[0];
  return {[=, part = parts_of(binding)[0], threads = binding.threads](const LaunchArguments& arguments) {
    const std::int64_t index = *static_cast<const std::int32_t*>(arguments.inputs[1]);
    if (index < 0 || index >= rows) fail("row: the index must be in 0..{}, but was {}", rows - 1, index);
    part.run(threads, static_cast<const std::byte*>(arguments.inputs[0]) + index * row_bytes, arguments.outputs[0]);
  }};
}

const Listed<CpuKernel> kReshape(movement_traits("highway.reshape", Op::kReshape, plan));
const Listed<CpuKernel> kTranspose(movement_traits("highway.transpose", Op::kTranspose, plan));
const Listed<CpuKernel> kConcat(movement_traits("highway.concat", Op::kConcat, plan));
const Listed<CpuKernel> kSlice(movement_traits("highway.slice", Op::kSlice, plan));
const Listed<CpuKernel> kRow(movement_traits("highway.row", Op::kRow, plan_row));

}  // namespace
}  // namespace headroom
