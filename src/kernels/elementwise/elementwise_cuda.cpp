#include "kernels/elementwise/elementwise_cuda.hpp"

#include <algorithm>

#include "kernels/core/cuda/cuda_kernel.hpp"

namespace headroom {
namespace {

using cuda::CudaKernel;

KernelPlan plan(const KernelBinding& binding) {
  const std::span<const Operand> in = binding.inputs;
  const Operand& y = binding.outputs[0];
  const cuda::ElementwiseRows rows{.op = binding.spec.op,
                                   .dtype = y.type.dtype,
                                   .side = in[std::min<std::size_t>(1, in.size() - 1)].type.dtype,
                                   .scalars = scalars_of(binding.spec),
                                   .grid = cuda::longest_grid<4>(y.type.shape, elementwise_strides(in, y))};
  return {[rows](const LaunchArguments& arguments) {
    cuda::launch_elementwise(arguments.stream.native_handle(), rows, cuda::input_addresses(arguments).data(),
                             arguments.output(0));
  }};
}

KernelPlan plan_plain(const KernelBinding& binding) {
  const std::span<const Operand> in = binding.inputs;
  const Operand& y = binding.outputs[0];
  const auto [b_value, c_value] = scalars_of<std::int64_t>(binding.spec);
  const cuda::PlainRows rows{.op = binding.spec.op,
                             .dtype = in.back().type.dtype,
                             .b = b_value,
                             .c = c_value,
                             .has_b = in.size() > 1,
                             .grid = cuda::longest_grid<4>(y.type.shape, elementwise_strides(in, y))};
  return {[rows](const LaunchArguments& arguments) {
    cuda::launch_plain(arguments.stream.native_handle(), rows, cuda::input_addresses(arguments).data(),
                       arguments.output(0));
  }};
}

Support supports_integers(const OpSpec& spec) {
  const DType dtype = spec.outputs[0].dtype;
  if (dtype != DType::kI32 && dtype != DType::kI64) return Rejection{fmt::format("takes i32 or i64, not {}", dtype)};
  return std::nullopt;
}

Support supports_comparison(const OpSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  if (is_float(dtype) && !cuda::is_element(dtype))
    return Rejection{fmt::format("compares f32, bf16, f16 or integers, not {}", dtype)};
  return std::nullopt;
}

}  // namespace

std::span<const CudaKernel> cuda_elementwise() {
  static const CudaKernel kernels[] = {
#define HR_COMPARISON(enumerator, title, ...)  \
  CudaKernel({.name = "cuda." #title,          \
              .op = Op::enumerator,            \
              .supports = supports_comparison, \
              .in_place = true,                \
              .plan = plan_plain}),
#define HR_ANY(enumerator, title, ...)             \
  CudaKernel({.name = "cuda." #title,              \
              .op = Op::enumerator,                \
              .supports = cuda::supports_elements, \
              .in_place = true,                    \
              .plan = plan}),
#include "ir/elementwise.def"
  };
  return kernels;
}

std::span<const CudaKernel> cuda_elementwise_of_integers() {
  static const CudaKernel kernels[] = {
#define HR_UNARY(...)
#define HR_REAL_BINARY(...)
#define HR_COMPARISON(...)
#define HR_TERNARY(...)
#define HR_ANY(enumerator, title, ...)            \
  CudaKernel({.name = "cuda." #title "_integers", \
              .op = Op::enumerator,               \
              .supports = supports_integers,      \
              .in_place = true,                   \
              .compute = DType::kI64,             \
              .plan = plan_plain}),
#include "ir/elementwise.def"
  };
  return kernels;
}

const Kernel& cuda_select() {
  static const CudaKernel kernel(
      {.name = "cuda.select", .op = Op::kSelect, .supports = supports_all_types, .in_place = true, .plan = plan_plain});
  return kernel;
}

}  // namespace headroom
