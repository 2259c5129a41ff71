// scaled_linear, as scaled_linear_cpu.cpp defines it, for shapes without a oneDNN int8 GEMM: on CPUs with AMX small
// row counts, or depths that its tiles do not support. Sums of i8 products in i32, a row at a time; the compiler
// vectorizes the depth. Rows and columns dense, any sizes.

#include "kernels/core/cpu_kernel.hpp"
#include "kernels/core/parallel.hpp"
#include "kernels/core/support.hpp"
#include "kernels/matmul/activation_rows.hpp"

namespace headroom {
namespace {

std::int32_t dot(const std::int8_t* a, const std::int8_t* b, std::int64_t count) {
  std::int32_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<std::int32_t>(a[i]) * b[i];
  return sum;
}

KernelPlan plan_scaled_linear_plain(const KernelBinding& binding) {
  const Shape& weight = binding.spec.input(Role::kWeight).shape;  // [n, k]
  const std::int64_t n = weight[0], k = weight[1];
  const std::int64_t rows = binding.outputs[0].type.shape.numel() / n;
  const RowFinish form{.activation = only_activation_of(binding.spec),
                       .bias = binding.spec.has(Role::kBias) ? std::optional(DType::kF32) : std::nullopt,
                       .y_dtype = binding.outputs[0].type.dtype,
                       .columns = n,
                       .y_stride = n};
  const auto launch = [=, threads = binding.threads](const LaunchArguments& arguments) {
    const auto* const x = arguments.input<std::int8_t>(0);
    const auto* const x_scale = arguments.input<float>(1);
    const auto* const w = arguments.input<std::int8_t>(2);
    const auto* const w_scale = arguments.input<float>(3);
    const void* const bias = arguments.optional_input(4);
    parallel_for(threads, rows, grain_of(n * k), [&](std::int64_t begin, std::int64_t end, int thread) {
      float* const sums = arguments.scratch_memory<float>() + thread * n;
      for (std::int64_t row = begin; row < end; ++row) {
        for (std::int64_t j = 0; j < n; ++j) sums[j] = static_cast<float>(dot(x + row * k, w + j * k, k));
        std::byte* const y =
            arguments.output<std::byte>(0) + row * n * static_cast<std::int64_t>(size_of(form.y_dtype));
        finish_rows(form, 1, sums, bias, y, {x_scale + row, w_scale});
      }
    });
  };
  return {launch, static_cast<std::size_t>(binding.threads * n) * sizeof(float)};
}

}  // namespace

Support check_scaled_linear(const OpSpec& spec) {
  const DType x = spec.inputs[0].dtype, y = spec.outputs[0].dtype;
  if (x != DType::kI8) return Rejection{fmt::format("takes i8, not {}", x)};
  if (y != DType::kF32 && y != DType::kBF16) return Rejection{fmt::format("makes f32 or bf16, not {}", y)};
  if (Support rejection = check_epilogue(spec, EpilogueForms::kActivation)) return rejection;
  if (spec.has(Role::kBias) && spec.input(Role::kBias).dtype != DType::kF32)
    return Rejection{fmt::format("takes a bias in f32, not {}", spec.input(Role::kBias).dtype)};
  return std::nullopt;
}

const Kernel& plain_scaled_linear() {
  static const CpuKernel kernel({.name = "plain.scaled_linear",
                                 .op = Op::kScaledLinear,
                                 .supports = check_scaled_linear,
                                 .strides = StrideRule::kDense,
                                 .compute = DType::kI8,
                                 .plan = plan_scaled_linear_plain});
  return kernel;
}

}  // namespace headroom
