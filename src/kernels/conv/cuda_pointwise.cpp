#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kernels/conv/convolution_epilogue_cuda.hpp"
#include "kernels/conv/gemv.hpp"
#include "kernels/conv/pointwise.hpp"
#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/vendor/cublaslt/gemm.hpp"

namespace headroom::convolutions {
namespace {

constexpr std::int64_t kLine = 8;

/// Whether anything is left for a kernel after the GEMM.
bool follows(const cuda::ConvolutionEpilogue& after) {
  return after.has_bias || after.has_residual || after.activation != Activation::kNone;
}

/// The GEMM with its epilogue, all of which is then left out of `after`. Otherwise the GEMM alone, in f32, so that
/// the epilogue rounds once.
cublaslt::Gemm take_in(cublaslt::GemmSpec& spec, cuda::ConvolutionEpilogue& after, const DeviceTarget& target) {
  const bool takes_bias = !after.has_bias || after.bias == spec.dtype;
  const bool adds = after.has_residual && after.activation == Activation::kNone;
  const bool activates = after.activation == Activation::kGeluTanh && !after.has_residual;
  const bool is_bare = !after.has_residual && after.activation == Activation::kNone;
  if (takes_bias && (adds || activates || is_bare)) {
    cublaslt::GemmSpec whole = spec;
    whole.has_bias = after.has_bias;
    whole.has_residual = adds, whole.residual_row = adds ? spec.n : 0;
    if (activates) whole.epilogue = cublaslt::Epilogue::kGelu;
    if (std::optional<cublaslt::Gemm> gemm = cublaslt::Gemm::find(whole, target)) {
      after.has_bias = after.has_residual = false, after.activation = Activation::kNone;
      spec = whole;
      return *std::move(gemm);
    }
  }
  if (follows(after)) spec.c_dtype = DType::kF32;
  return {spec, target};
}

}  // namespace

bool is_pointwise(const Problem& problem) {
  const Builder::Convolution& how = problem.how;
  return problem.shortcut == 0 && !problem.is_transposed && problem.layout == Layout::kChannelsLast &&
         problem.weight[2] == 1 && problem.weight[3] == 1 && how.stride == std::array<std::int64_t, 2>{1, 1} &&
         std::ranges::max(how.padding) == 0 && how.groups == 1;
}

Problem in_lines(const Problem& gemm) {
  Problem made = gemm;
  const std::int64_t rows = gemm.y.numel() / gemm.y[1], line = rows % kLine == 0 ? kLine : 1;
  made.x = {1, gemm.x[1], rows / line, line};
  made.y = {1, gemm.y[1], rows / line, line};
  return made;
}

Algorithm make_pointwise_algorithm(const Problem& gemm, const DeviceTarget& target) {
  const std::int64_t k = gemm.weight[1], n = gemm.weight[0], m = gemm.y.numel() / n;
  cublaslt::GemmSpec spec{.dtype = gemm.dtype,
                          .c_dtype = gemm.dtype,
                          .rounds_to_tf32 = gemm.rounds_to_tf32,
                          .m = m,
                          .n = n,
                          .k = k,
                          .a_row = k,
                          .b_row = k,
                          .c_row = n};
  const Shape row{0, 1}, rows{n, 1};
  cuda::ConvolutionEpilogue after{.activation = gemm.activation,
                                  .has_bias = gemm.bias.has_value(),
                                  .has_residual = gemm.has_residual,
                                  .dtype = gemm.dtype,
                                  .bias = gemm.bias.value_or(gemm.dtype),
                                  .grid = cuda::longest_grid<4>(Shape{m, n}, {row, rows, rows, rows})};
  const cublaslt::Gemm multiply = take_in(spec, after, target);
  const bool has_kernel = follows(after), has_sums = spec.c_dtype != gemm.dtype;
  const std::size_t sums_bytes = has_sums ? part_bytes(static_cast<std::size_t>(m * n) * sizeof(float)) : 0;
  return {.name = fmt::format("{}{}{}", kPointwiseAlgorithm, multiply.implementation(), has_kernel ? " + cuda" : ""),
          .workspace_bytes = sums_bytes + multiply.workspace_bytes(),
          .run = [=](void* stream, const Operands& operands, void* workspace) {
            void* const made = has_sums ? workspace : operands.y;
            multiply.run(stream,
                         {.a = operands.x,
                          .b = operands.weight,
                          .bias = spec.has_bias ? operands.bias : nullptr,
                          .residual = spec.has_residual ? operands.residual : nullptr,
                          .c = made},
                         static_cast<std::byte*>(workspace) + sums_bytes);
            if (has_kernel)
              cuda::launch_convolution_epilogue(stream, after, static_cast<const float*>(made), operands.bias,
                                                operands.residual, operands.y);
          }};
}

bool has_few_rows(const Problem& problem) {
  constexpr std::int64_t kMostExtent = INT32_MAX / 2;
  const std::int64_t outputs = problem.y[1], depth = problem.x[1];
  return is_pointwise(problem) && !problem.has_residual && problem.y.numel() > 0 &&
         problem.y.numel() / outputs <= kMostFewRows &&
         depth * static_cast<std::int64_t>(size_of(problem.dtype)) % 16 == 0 && std::max(outputs, depth) <= kMostExtent;
}

Algorithm make_gemv_algorithm(const Problem& gemm) {
  const FewRows form{.dtype = gemm.dtype,
                     .bias_is_f32 = gemm.bias == DType::kF32,
                     .activation = gemm.activation,
                     .has_constant_weight = gemm.has_constant_weight,
                     .rows = static_cast<int>(gemm.y.numel() / gemm.y[1]),
                     .outputs = static_cast<int>(gemm.y[1]),
                     .depth = static_cast<int>(gemm.x[1])};
  return {.name = std::string(kGemvAlgorithm),
          .run = [form](void* stream, const Operands& operands, void* /*workspace*/) {
            launch_few_rows(stream, form, operands.x, operands.weight, operands.bias, operands.y);
          }};
}

}  // namespace headroom::convolutions
