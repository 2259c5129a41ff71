#include <vector>

#include "kernels/copy_cuda.hpp"
#include "kernels/cuda/cuda_kernel.hpp"
#include "kernels/cuda_kernels.hpp"

namespace headroom {
namespace {

using cuda::CudaKernel;

std::int64_t element_bytes(const Operand& operand) { return static_cast<std::int64_t>(size_of(operand.type.dtype)); }

/// `to` as a copy of elements whose strides are `from_strides` along the axes of `to`; everything in bytes.
cuda::CopyRows copy_between(const Operand& to, const Shape& from_strides) {
  const std::int64_t size = element_bytes(to);
  cuda::CopyRows rows{.element_bytes = static_cast<int>(size),
                      .grid = cuda::longest_grid<2>(to.type.shape, {from_strides, to.strides})};
  rows.grid.length *= size;
  for (int axis = 0; axis < rows.grid.rank; ++axis)
    for (std::int64_t& stride : rows.grid.strides[axis]) stride *= size;
  return rows;
}

const std::byte* offset(const void* address, std::int64_t bytes) {
  return static_cast<const std::byte*>(address) + bytes;
}
std::byte* offset(void* address, std::int64_t bytes) { return static_cast<std::byte*>(address) + bytes; }

KernelPlan plan_part(const cuda::CopyRows& rows, std::int64_t from) {
  return {[rows, from](const LaunchArguments& arguments) {
    cuda::launch_copy(arguments.stream.native_handle(), rows, offset(arguments.inputs[0], from), arguments.outputs[0]);
  }};
}

KernelPlan plan_reshape(const KernelBinding& binding) {
  const Operand& y = binding.outputs[0];
  return plan_part(copy_between(y, row_major_strides(y.type.shape)), 0);
}

KernelPlan plan_transpose(const KernelBinding& binding) {
  const Operand& y = binding.outputs[0];
  Shape from = y.strides;
  int axis = 0;
  for (const std::int64_t source : binding.spec.attributes.get_ints("perm"))
    from.set(axis++, binding.inputs[0].strides[static_cast<int>(source)]);
  return plan_part(copy_between(y, from), 0);
}

KernelPlan plan_slice(const KernelBinding& binding) {
  const Operand& x = binding.inputs[0];
  const auto& attributes = binding.spec.attributes;
  const std::int64_t start = attributes.get_int("start") * x.strides[static_cast<int>(attributes.get_int("axis"))];
  return plan_part(copy_between(binding.outputs[0], x.strides), start * element_bytes(x));
}

KernelPlan plan_concat(const KernelBinding& binding) {
  struct Part {
    cuda::CopyRows rows;
    std::int64_t to;
  };
  const Operand& y = binding.outputs[0];
  const int axis = static_cast<int>(binding.spec.attributes.get_int("axis"));
  std::vector<Part> parts;
  std::int64_t start = 0;
  for (const Operand& x : binding.inputs) {
    parts.push_back({copy_between({x.type, y.strides}, x.strides), start * y.strides[axis] * element_bytes(y)});
    start += x.type.shape[axis];
  }
  return {[parts](const LaunchArguments& arguments) {
    for (std::size_t i = 0; i < parts.size(); ++i)
      cuda::launch_copy(arguments.stream.native_handle(), parts[i].rows, arguments.inputs[i],
                        offset(arguments.outputs[0], parts[i].to));
  }};
}

KernelPlan plan_row(const KernelBinding& binding) {
  const Operand& table = binding.inputs[0];  // [n, ...]
  const cuda::CopyRows rows = copy_between(binding.outputs[0], Shape(table.strides.dims().subspan(1)));
  const std::int64_t count = table.type.shape[0];
  const std::int64_t row_bytes = table.strides[0] * element_bytes(table);
  return {[rows, count, row_bytes](const LaunchArguments& arguments) {
    cuda::launch_copy_row(arguments.stream.native_handle(), rows, arguments.inputs[0],
                          static_cast<const std::int32_t*>(arguments.inputs[1]), count, row_bytes,
                          arguments.outputs[0]);
  }};
}

KernelTraits movement(std::string_view name, Op op, KernelPlan (*plan)(const KernelBinding&)) {
  return {.name = name, .op = op, .supports = supports_all_types, .strides = StrideRule::kAny, .plan = plan};
}

}  // namespace

const Kernel& cuda_reshape() {
  static const CudaKernel kernel({.name = "cuda.reshape",
                                  .op = Op::kReshape,
                                  .supports = supports_row_major,
                                  .strides = StrideRule::kDense,
                                  .plan = plan_reshape});
  return kernel;
}
const Kernel& cuda_transpose() {
  static const CudaKernel kernel(movement("cuda.transpose", Op::kTranspose, plan_transpose));
  return kernel;
}
const Kernel& cuda_concat() {
  static const CudaKernel kernel(movement("cuda.concat", Op::kConcat, plan_concat));
  return kernel;
}
const Kernel& cuda_slice() {
  static const CudaKernel kernel(movement("cuda.slice", Op::kSlice, plan_slice));
  return kernel;
}
const Kernel& cuda_row() {
  static const CudaKernel kernel(movement("cuda.row", Op::kRow, plan_row));
  return kernel;
}

}  // namespace headroom
