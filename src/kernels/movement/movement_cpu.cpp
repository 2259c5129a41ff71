// reshape, transpose, concat, slice, row, pad, broadcast, constant: y is a permutation, concatenation, part or
// repetition of x, or of values that the node holds. Any dtype, any strides (reshape, constant: dense). Bytes: y's
// read and y's written; no arithmetic. See strided_copy.cpp for the method.

#include <memory>
#include <vector>

#include "kernels/core/cpu_kernel.hpp"
#include "kernels/movement/movement.hpp"
#include "kernels/movement/strided_copy.hpp"

namespace headroom {
namespace {

struct Part {
  StridedCopy copy;
  std::int64_t from_bytes, to_bytes;

  void run(int threads, const void* source, void* target) const {
    copy.run(threads, static_cast<const std::byte*>(source) + from_bytes, static_cast<std::byte*>(target) + to_bytes);
  }
};

/// Strides of 0, for one element that is broadcast.
Shape no_strides(const Shape& extents) {
  Shape strides = extents;
  for (int axis = 0; axis < extents.rank(); ++axis) strides.set(axis, 0);
  return strides;
}

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

KernelPlan plan_movement(const KernelBinding& binding) {
  return {[parts = parts_of(binding), threads = binding.threads](const LaunchArguments& arguments) {
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i].run(threads, arguments.input(i), arguments.output(0));
  }};
}

KernelPlan plan_row(const KernelBinding& binding) {
  const Operand& table = binding.inputs[0];  // [n, ...]
  const std::int64_t row_bytes = table.strides[0] * static_cast<std::int64_t>(size_of(table.type.dtype));
  const std::int64_t rows = table.type.shape[0];
  return {[=, part = parts_of(binding)[0], threads = binding.threads](const LaunchArguments& arguments) {
    const std::int64_t index = *arguments.input<std::int32_t>(1);
    if (index < 0 || index >= rows) fail("row: the index must be in 0..{}, but was {}", rows - 1, index);
    part.run(threads, arguments.input<std::byte>(0) + index * row_bytes, arguments.output(0));
  }};
}

KernelPlan plan_pad(const KernelBinding& binding) {
  const DType dtype = binding.outputs[0].type.dtype;
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  std::vector<Part> margins;
  for (const FilledPart& part : margins_of(binding))
    margins.push_back(
        {{size_of(dtype), part.extents, no_strides(part.extents), part.to_strides}, 0, part.to_elements * size});
  const std::uint64_t value = bits_of(binding.spec.attributes[attr::kValue], dtype);
  return {[=, part = parts_of(binding)[0], threads = binding.threads](const LaunchArguments& arguments) {
    part.run(threads, arguments.input(0), arguments.output(0));
    for (const Part& margin : margins) margin.run(threads, &value, arguments.output(0));
  }};
}

KernelPlan plan_constant(const KernelBinding& binding) {
  const Operand& y = binding.outputs[0];
  const std::size_t size = size_of(y.type.dtype);
  const auto bytes = std::make_shared<const std::vector<std::byte>>(constant_bytes(binding.spec.attributes));
  const Shape& shape = y.type.shape;
  const StridedCopy copy(size, shape, bytes->size() == size ? no_strides(shape) : row_major_strides(shape), y.strides,
                         binding.exceeds_cache);
  return {[=, threads = binding.threads](const LaunchArguments& arguments) {
    copy.run(threads, bytes->data(), arguments.output(0));
  }};
}

}  // namespace

std::span<const CpuKernel> highway_movement() {
  static const CpuKernel kernels[] = {
      CpuKernel(movement_traits("highway.reshape", Op::kReshape, plan_movement)),
      CpuKernel(movement_traits("highway.transpose", Op::kTranspose, plan_movement)),
      CpuKernel(movement_traits("highway.concat", Op::kConcat, plan_movement)),
      CpuKernel(movement_traits("highway.slice", Op::kSlice, plan_movement)),
      CpuKernel(movement_traits("highway.row", Op::kRow, plan_row)),
      CpuKernel(movement_traits("highway.pad", Op::kPad, plan_pad)),
      CpuKernel(movement_traits("highway.broadcast", Op::kBroadcast, plan_movement)),
      CpuKernel(movement_traits("highway.constant", Op::kConstant, plan_constant)),
  };
  return kernels;
}

}  // namespace headroom
