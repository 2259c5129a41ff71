// scaled_linear on a GPU: y[..., j] = epilogue((sum_i xq[..., i] wq[j, i]) * x_scale[...] * w_scale[j] + bias[j]), by
// cuBLASLt on FP8 tensor cores
//
// Shapes     xq[..., k], x_scale[...], wq[n, k], w_scale[n], bias[n] or none -> y[..., n]; k and n multiples of 16.
// Epilogue   an activation, or the sum with a residual[..., n].
// Dtypes     xq f8e4m3, wq f8e4m3 or f8e5m2, scales f32; y bf16, f16 or f32; bias as y or f32; residual as y. Sums in
//            f32, or with `fast_sums` in the tensor cores' own precision (fast accumulation), which is lower.
// Layout     all dense but y (innermost stride 1), at multiples of 16 bytes.
// Bytes      m*k + n*k + 4*(m + n) + (n + m*n) * size, m*n * size for the residual; FLOPs 2*m*n*k + 2*m*n, m*n each
//            for bias and residual, and the activation's.
//
// With 16-bit results, scales, bias, residual and the tanh form of GELU are the GEMM's epilogue, which costs 0 to 2%
// (docs/gpu_facts.md). If the library has no such GEMM (GPUs other than Hopper, results in f32, other activations),
// it runs the bare one in f32, and a kernel of ours scales the result. y overwrites a residual only in f32.

#include <optional>

#include "backends/device_memory.hpp"
#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/core/library_kernel.hpp"
#include "kernels/core/support.hpp"
#include "kernels/matmul/scale_gemm_cuda.hpp"
#include "kernels/vendor/cublaslt/rows.hpp"

namespace headroom {
namespace {

using cublaslt::Gemm;
using cublaslt::GemmSpec;

constexpr std::int64_t kChannelMultiple = 16;
constexpr std::int64_t kScaleMultiple = 4;  ///< 16 bytes of them

consteval std::size_t at(Role role) { return position_of(Op::kScaledLinear, role); }

/// What follows the scaled sums; `supports` takes no other form of epilogue.
struct After {
  explicit After(const OpSpec& spec)
      : activation(form_of(spec.attributes[attr::kEpilogue])->activation),
        has_bias(spec.has(Role::kBias)),
        has_residual(spec.attributes.epilogue_operands() > 0) {}

  [[nodiscard]] const void* bias(const LaunchArguments& arguments) const {
    return has_bias ? arguments.input(at(Role::kBias)) : nullptr;
  }
  [[nodiscard]] const void* residual(const LaunchArguments& arguments) const {
    return has_residual ? arguments.inputs.back().address() : nullptr;
  }

  Activation activation;
  bool has_bias, has_residual;
};

/// The whole op as one GEMM of the library; nothing if it has none.
std::optional<KernelPlan> plan_whole(const KernelBinding& binding) {
  const OpSpec& given = binding.spec;
  const DType made = binding.outputs[0].type.dtype;
  const RowPlan rows = plan_rows(binding.inputs[0], binding.outputs[0]);
  const After after(given);
  GemmSpec spec = cublaslt::spec_of_rows(rows, DType::kF8E4M3, made, given.input(Role::kWeight).shape);
  spec.b_is_f8e5m2 = given.input(Role::kWeight).dtype == DType::kF8E5M2;
  spec.has_scales = true;
  spec.fast_sums = given.attributes[attr::kFastSums];
  spec.has_bias = after.has_bias;
  spec.has_residual = after.has_residual;
  spec.residual_row = rows.rows.x_stride / spec.k * spec.n;
  spec.epilogue = after.activation == Activation::kGeluTanh ? cublaslt::Epilogue::kGelu : cublaslt::Epilogue::kNone;
  const bool has_epilogue = after.activation == Activation::kNone || after.activation == Activation::kGeluTanh;
  const bool has_dense_scales = spec.m == 1 || spec.a_row == spec.k;  // contiguous
  const bool has_aligned_scales = rows.count() == 1 || spec.m % kScaleMultiple == 0;
  if (made == DType::kF32 || !has_epilogue || !has_dense_scales || !has_aligned_scales ||
      (spec.has_bias && given.input(Role::kBias).dtype != made))
    return std::nullopt;
  const std::optional<Gemm> gemm = Gemm::find(spec, binding.target);
  if (!gemm) return std::nullopt;
  const auto launch = [=](const LaunchArguments& arguments) {
    cublaslt::run_rows(*gemm, spec, rows, arguments.stream.native_handle(),
                       {.a = arguments.input(at(Role::kX)),
                        .b = arguments.input(at(Role::kWeight)),
                        .bias = after.bias(arguments),
                        .residual = after.residual(arguments),
                        .c = arguments.output(0),
                        .a_scale = arguments.input<float>(at(Role::kXScale)),
                        .b_scale = arguments.input<float>(at(Role::kWeightScale))},
                       arguments.scratch_memory());
  };
  return KernelPlan{launch, gemm->workspace_bytes(), gemm->implementation()};
}

/// One GEMM of all rows of x, which is dense, into scratch, and a kernel that scales the result.
KernelPlan plan_scaled_after(const KernelBinding& binding) {
  const OpSpec& given = binding.spec;
  const Operand& y = binding.outputs[0];
  const Shape& shape = y.type.shape;
  const std::int64_t n = given.input(Role::kWeight).shape[0], k = given.input(Role::kWeight).shape[1],
                     m = shape.numel() / n;
  GemmSpec spec = cublaslt::spec_of_rows({.rows = {m, k, n}, .loops = {}}, DType::kF8E4M3, DType::kF32,
                                         given.input(Role::kWeight).shape);
  spec.b_is_f8e5m2 = given.input(Role::kWeight).dtype == DType::kF8E5M2;
  spec.fast_sums = given.attributes[attr::kFastSums];
  const Gemm gemm(spec, binding.target);
  const std::size_t gemm_bytes = part_bytes(static_cast<std::size_t>(m * n) * sizeof(float));
  const After after(given);
  const Shape rows = cuda::one_a_row(row_major_strides(given.input(Role::kXScale).shape));
  Shape columns = shape;
  for (int axis = 0; axis < shape.rank(); ++axis) columns.set(axis, axis + 1 == shape.rank() ? 1 : 0);
  const cuda::ScaledGemm scaled{
      .activation = after.activation,
      .has_bias = after.has_bias,
      .has_residual = after.has_residual,
      .dtype = y.type.dtype,
      .bias = after.has_bias ? given.input(Role::kBias).dtype : DType::kF32,
      .grid = cuda::to_grid(
          rows_of<6>(shape, {row_major_strides(shape), rows, columns, columns, row_major_strides(shape), y.strides}))};
  const auto launch = [=](const LaunchArguments& arguments) {
    void* const stream = arguments.stream.native_handle();
    auto* const scratch = arguments.scratch_memory<std::byte>();
    gemm.run(stream, {.a = arguments.input(at(Role::kX)), .b = arguments.input(at(Role::kWeight)), .c = scratch},
             scratch + gemm_bytes);
    cuda::launch_scale_gemm(stream, scaled, reinterpret_cast<const float*>(scratch),
                            arguments.input<float>(at(Role::kXScale)), arguments.input<float>(at(Role::kWeightScale)),
                            after.bias(arguments), after.residual(arguments), arguments.output(0));
  };
  return {launch, gemm_bytes + gemm.workspace_bytes(), gemm.implementation() + " + cuda"};
}

KernelPlan plan(const KernelBinding& binding) {
  std::optional<KernelPlan> whole = plan_whole(binding);
  return whole ? *std::move(whole) : plan_scaled_after(binding);
}

Support supports(const OpSpec& spec, const Target& target) {
  if (std::string obstacle = obstacle_to(Capability::kFp8Matmuls, target); !obstacle.empty())
    return Rejection{std::move(obstacle)};
  if (spec.inputs[0].dtype != DType::kF8E4M3)
    return Rejection{fmt::format("takes f8e4m3, not {}", spec.inputs[0].dtype)};
  if (Support rejection = check_epilogue(spec, EpilogueForms::kEither)) return rejection;
  const DType made = spec.outputs[0].dtype;
  if (!cuda::is_element(made)) return Rejection{fmt::format("makes f32, bf16 or f16, not {}", made)};
  const Shape& weight = spec.input(Role::kWeight).shape;
  if (weight[0] % kChannelMultiple != 0 || weight[1] % kChannelMultiple != 0)
    return Rejection{
        fmt::format("takes channels in multiples of {}, not {} to {}", kChannelMultiple, weight[1], weight[0])};
  return std::nullopt;
}

/// y may overwrite its residual if both are f32. In 16 bits the library rounds the sums before it adds the residual
/// in place (docs/gpu_facts.md), and rounds once out of place: bits would depend on the address of y.
class ScaledLinearKernel : public LibraryKernel {
 public:
  using LibraryKernel::LibraryKernel;
  [[nodiscard]] bool may_overwrite(const OpSpec& spec, int input, int output) const override {
    return spec.outputs[0].dtype == DType::kF32 && LibraryKernel::may_overwrite(spec, input, output);
  }
};

}  // namespace

const Kernel& cublaslt_scaled_linear() {
  static const ScaledLinearKernel kernel({.name = "cublaslt.scaled_linear",
                                          .op = Op::kScaledLinear,
                                          .device = DeviceKind::kCuda,
                                          .supports = supports,
                                          .overwrites_residual = true,
                                          .plan = plan});
  return kernel;
}

}  // namespace headroom
