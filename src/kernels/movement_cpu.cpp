// reshape, transpose, concat, slice, row: y is a rearrangement, a join or a part of x. Any dtype, any strides (reshape:
// dense). Bytes    y's read and y's written; no arithmetic. See strided_copy.cpp for how.

#include <vector>

#include "kernels/cpu_kernel.hpp"
#include "kernels/cpu_kernels.hpp"
#include "kernels/strided_copy.hpp"

namespace headroom {
namespace {

/// A copy of one operand, with where it starts in the source and in the target, in bytes.
struct Part {
  StridedCopy copy;
  std::int64_t from = 0;
  std::int64_t to = 0;

  void run(int threads, const void* source, void* target) const {
    copy.run(threads, static_cast<const std::byte*>(source) + from, static_cast<std::byte*>(target) + to);
  }
};

std::int64_t element_bytes(const Operand& operand) { return static_cast<std::int64_t>(size_of(operand.type.dtype)); }

/// `to` as a copy of elements of `from`, whose strides are `from_strides` along the axes of `to`.
StridedCopy copy_between(const Operand& to, const Shape& from_strides, bool streams) {
  return {size_of(to.type.dtype), to.type.shape, from_strides, to.strides, streams};
}

KernelPlan plan_part(const Part& part, int threads) {
  return {[=](const LaunchArguments& arguments) { part.run(threads, arguments.inputs[0], arguments.outputs[0]); }};
}

KernelPlan plan_reshape(const KernelBinding& binding) {
  const Operand& y = binding.outputs[0];
  return plan_part({copy_between(y, row_major_strides(y.type.shape), binding.exceeds_cache)}, binding.threads);
}

KernelPlan plan_transpose(const KernelBinding& binding) {
  const Operand& y = binding.outputs[0];
  Shape from = y.strides;
  int axis = 0;
  for (const std::int64_t source : binding.spec.attributes.get_ints("perm")) {
    from.set(axis++, binding.inputs[0].strides[static_cast<int>(source)]);
  }
  return plan_part({copy_between(y, from, binding.exceeds_cache)}, binding.threads);
}

KernelPlan plan_slice(const KernelBinding& binding) {
  const Operand& x = binding.inputs[0];
  const auto& attributes = binding.spec.attributes;
  const std::int64_t start = attributes.get_int("start") * x.strides[static_cast<int>(attributes.get_int("axis"))];
  return plan_part({copy_between(binding.outputs[0], x.strides, binding.exceeds_cache), start * element_bytes(x)},
                   binding.threads);
}

KernelPlan plan_concat(const KernelBinding& binding) {
  const Operand& y = binding.outputs[0];
  const int axis = static_cast<int>(binding.spec.attributes.get_int("axis"));
  std::vector<Part> parts;
  std::int64_t start = 0;
  for (const Operand& x : binding.inputs) {
    parts.push_back({copy_between({x.type, y.strides}, x.strides, binding.exceeds_cache), 0,
                     start * y.strides[axis] * element_bytes(y)});
    start += x.type.shape[axis];
  }
  const int threads = binding.threads;
  return {[=](const LaunchArguments& arguments) {
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i].run(threads, arguments.inputs[i], arguments.outputs[0]);
  }};
}

KernelPlan plan_row(const KernelBinding& binding) {
  const Operand& table = binding.inputs[0];  // [n, ...]
  const Operand& y = binding.outputs[0];     // [...]
  const Part part{copy_between(y, Shape(table.strides.dims().subspan(1)), binding.exceeds_cache)};
  const std::int64_t row_bytes = table.strides[0] * element_bytes(table);
  const std::int64_t rows = table.type.shape[0];
  const int threads = binding.threads;
  return {[=](const LaunchArguments& arguments) {
    const std::int64_t index = *static_cast<const std::int32_t*>(arguments.inputs[1]);
    if (index < 0 || index >= rows) fail("row: the index must be in 0..{}, but was {}", rows - 1, index);
    part.run(threads, static_cast<const std::byte*>(arguments.inputs[0]) + index * row_bytes, arguments.outputs[0]);
  }};
}

KernelTraits movement(std::string_view name, Op op, KernelPlan (*plan)(const KernelBinding&)) {
  return {.name = name, .op = op, .supports = supports_all_types, .strides = StrideRule::kAny, .plan = plan};
}

}  // namespace

const Kernel& highway_reshape() {
  static const CpuKernel kernel({.name = "highway.reshape",
                                 .op = Op::kReshape,
                                 .supports = supports_row_major,
                                 .strides = StrideRule::kDense,
                                 .plan = plan_reshape});
  return kernel;
}
const Kernel& highway_transpose() {
  static const CpuKernel kernel(movement("highway.transpose", Op::kTranspose, plan_transpose));
  return kernel;
}
const Kernel& highway_concat() {
  static const CpuKernel kernel(movement("highway.concat", Op::kConcat, plan_concat));
  return kernel;
}
const Kernel& highway_slice() {
  static const CpuKernel kernel(movement("highway.slice", Op::kSlice, plan_slice));
  return kernel;
}
const Kernel& highway_row() {
  static const CpuKernel kernel(movement("highway.row", Op::kRow, plan_row));
  return kernel;
}

}  // namespace headroom
