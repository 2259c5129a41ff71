// linear on a GPU: y[..., j] = epilogue(sum_i x[..., i] * weight[j, i] + bias[j]), by the algorithm measured as the
// fastest: one of cuBLASLt, or on Hopper our own kernel if rows are contiguous (conv/pointwise.hpp)
//
// Shapes     x[..., k], weight[n, k], bias[n] or none -> y[..., n]. Leading axes become one of m rows, or several
//            GEMMs if strides prevent that.
// Dtypes     f32, bf16 and f16 with f32 sums; y and bias have the dtype of x. f32 without TF32 unless
//            the attribute tf32 allows it.
// Layout     x and y: innermost stride 1; weight and bias dense.
// Epilogue   an activation, or the sum with a residual[..., n]. Bias, residual and the tanh form of gelu are in the
//            GEMM's own epilogue, if the library has it; others are by a second kernel, which reads the sums in f32
//            and rounds once.
// Bytes      (m*k + n*k + n + m*n, and m*n for a residual) * size; FLOPs 2*m*n*k + m*n for the bias + the epilogue's
//
// On 4608 rows of 3072 to 15360 the heuristic's first choice runs at 620 to 800 TFLOP/s in bf16 on an H200. The best
// of its first eight runs at 700 to 810, so a measured choice is worth 5 to 10% (docs/gpu_facts.md).

#include <optional>

#include "backends/device_memory.hpp"
#include "kernels/conv/convolution.hpp"
#include "kernels/conv/convolution_epilogue_cuda.hpp"
#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/core/library_kernel.hpp"
#include "kernels/core/support.hpp"
#include "kernels/vendor/cublaslt/rows.hpp"

namespace headroom {
namespace {

using cublaslt::Gemm;
using cublaslt::GemmSpec;

EpilogueForm epilogue_of(const OpSpec& spec) { return *form_of(spec.attributes[attr::kEpilogue]); }

/// The whole linear as one GEMM of contiguous rows; nothing if the rows are not contiguous.
std::optional<convolutions::Problem> dense_gemm(const KernelBinding& binding, const RowPlan& rows) {
  const OpSpec& spec = binding.spec;
  const Shape& weight = spec.input(Role::kWeight).shape;  // [n, k]
  const std::int64_t n = weight[0], k = weight[1], m = rows.rows.extent;
  const bool is_dense = rows.loops.empty() && (m == 1 || (rows.rows.x_stride == k && rows.rows.y_stride == n));
  if (!is_dense) return std::nullopt;
  convolutions::Problem gemm{.dtype = spec.inputs[0].dtype,
                             .has_residual = epilogue_of(spec).adds_operand,
                             .activation = epilogue_of(spec).activation,
                             .rounds_to_tf32 = rounds_to_tf32(spec),
                             .has_constant_weight = spec.has_weight_at(1),
                             .layout = Layout::kChannelsLast,
                             .x = {1, k, m, 1},
                             .weight = {n, k, 1, 1},
                             .y = {1, n, m, 1}};
  if (spec.has(Role::kBias)) gemm.bias = spec.input(Role::kBias).dtype;
  return gemm;
}

/// The linear's GEMMs with bias and activation in their epilogue; nothing if the library has no such algorithm.
std::optional<KernelPlan> plan_whole(const KernelBinding& binding, const RowPlan& rows) {
  const Operand &x = binding.inputs[0], &y = binding.outputs[0];
  const auto [activation, adds_residual] = epilogue_of(binding.spec);
  if (activation != Activation::kNone && activation != Activation::kGeluTanh) return std::nullopt;
  if (adds_residual && !rows.loops.empty()) return std::nullopt;  // whose rows are dense
  GemmSpec spec = cublaslt::spec_of_rows(rows, x.type.dtype, y.type.dtype, binding.spec.input(Role::kWeight).shape);
  spec.rounds_to_tf32 = rounds_to_tf32(binding.spec);
  spec.has_bias = binding.spec.has(Role::kBias);
  spec.has_residual = adds_residual;
  if (adds_residual) spec.residual_row = spec.n;
  if (activation == Activation::kGeluTanh) spec.epilogue = cublaslt::Epilogue::kGelu;
  const std::optional<Gemm> gemm = Gemm::find(spec, binding.target);
  if (!gemm) return std::nullopt;
  const auto launch = [=](const LaunchArguments& arguments) {
    cublaslt::run_rows(*gemm, spec, rows, arguments.stream.native_handle(),
                       {.a = arguments.input(0),
                        .b = arguments.input(1),
                        .bias = spec.has_bias ? arguments.input(2) : nullptr,
                        .residual = spec.has_residual ? arguments.inputs.back().address() : nullptr,
                        .c = arguments.output(0)},
                       arguments.scratch_memory());
  };
  return KernelPlan{launch, gemm->workspace_bytes(), gemm->implementation()};
}

/// The plain GEMMs into f32 scratch memory, then a kernel for bias and epilogue.
KernelPlan plan_in_two(const KernelBinding& binding) {
  const Operand &x = binding.inputs[0], &y = binding.outputs[0];
  const Operand sums = dense_operand({DType::kF32, y.type.shape});
  const RowPlan rows = plan_rows(x, sums);
  GemmSpec spec = cublaslt::spec_of_rows(rows, x.type.dtype, DType::kF32, binding.spec.input(Role::kWeight).shape);
  spec.rounds_to_tf32 = rounds_to_tf32(binding.spec);
  const Gemm gemm(spec, binding.target);
  const auto [activation, adds_residual] = epilogue_of(binding.spec);
  const bool has_bias = binding.spec.has(Role::kBias);
  Shape of_bias = y.type.shape;
  for (int axis = 0; axis < of_bias.rank(); ++axis) of_bias.set(axis, axis + 1 == of_bias.rank() ? 1 : 0);
  const cuda::ConvolutionEpilogue after{
      .activation = activation,
      .has_bias = has_bias,
      .has_residual = adds_residual,
      .dtype = y.type.dtype,
      .bias = has_bias ? binding.input(Role::kBias).type.dtype : y.type.dtype,
      .grid = cuda::longest_grid<4>(
          y.type.shape, {of_bias, adds_residual ? binding.inputs.back().strides : y.strides, sums.strides, y.strides})};
  const std::size_t sums_bytes = part_bytes(sums.type.bytes());
  const auto launch = [=](const LaunchArguments& arguments) {
    void* const stream = arguments.stream.native_handle();
    auto* const scratch = arguments.scratch_memory<std::byte>();
    cublaslt::run_rows(gemm, spec, rows, stream, {.a = arguments.input(0), .b = arguments.input(1), .c = scratch},
                       scratch + sums_bytes);
    cuda::launch_convolution_epilogue(stream, after, reinterpret_cast<const float*>(scratch),
                                      has_bias ? arguments.input(2) : nullptr,
                                      adds_residual ? arguments.inputs.back().address() : nullptr, arguments.output(0));
  };
  return {launch, sums_bytes + gemm.workspace_bytes(), gemm.implementation() + " + cuda"};
}

KernelPlan plan(const KernelBinding& binding) {
  const RowPlan rows = plan_rows(binding.inputs[0], binding.outputs[0]);
  if (const auto gemm = dense_gemm(binding, rows)) return convolutions::plan_fastest(*gemm, binding.target);
  if (std::optional<KernelPlan> whole = plan_whole(binding, rows)) return *std::move(whole);
  return plan_in_two(binding);
}

Support supports(const OpSpec& spec, const Target& target) {
  if (Support rejection = check_epilogue(spec, EpilogueForms::kEither)) return rejection;
  return check_float_gemm(spec, target);
}

}  // namespace

const Kernel& fastest_linear() {
  static const LibraryKernel kernel({.name = "fastest.linear",
                                     .op = Op::kLinear,
                                     .device = DeviceKind::kCuda,
                                     .supports = supports,
                                     .strided = 0b1,
                                     .plan = plan});
  return kernel;
}

}  // namespace headroom
