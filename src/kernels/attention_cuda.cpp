// attention on a GPU: o = softmax(scale * q k^T) v;  q[b, h, s, d], k[b, h, t, d], v[b, h, t, e] -> o[b, h, s, e]
//
// cudnn.attention     flash attention of cuDNN, bf16 or f16: scores never leave the chip. 660 TFLOP/s at 24 heads of
//                     4608 x 128 (H200, docs/gpu_facts.md). Heads may lie interleaved, at multiples of 16 bytes.
// cublaslt.attention  for the rest: two products and a softmax with the scores [b, h, s, t] in scratch; f32 (on
//                     tensor cores where the attribute tf32 allows it), bf16 or f16.
//
// FLOPs   2 * b*h*s*t * (d + e).

#include <algorithm>
#include <memory>
#include <utility>

#include "base/divide_up.hpp"
#include "kernels/attention_problem.hpp"
#include "kernels/cuda/cuda_kernel.hpp"
#include "kernels/cudnn/sdpa.hpp"
#include "kernels/library_kernel.hpp"
#include "kernels/norm_cuda.hpp"
#include "kernels/support.hpp"

namespace headroom {
namespace {

KernelPlan plan_sdpa(const KernelBinding& binding) {
  try {
    const auto sdpa = std::make_shared<const cudnn::Sdpa>(
        attention_problem(binding.spec, binding.inputs, binding.outputs[0]), cuda::backend_of(binding));
    const auto launch = [sdpa](const LaunchArguments& arguments) {
      sdpa->run(arguments.stream.native_handle(), arguments.inputs[0], arguments.inputs[1], arguments.inputs[2],
                arguments.outputs[0], arguments.scratch);
    };
    return {launch, sdpa->workspace_bytes(), sdpa->implementation()};
  } catch (const Error& error) {  // no engine for this GPU, or one that lacks a library of its own (NVRTC)
    throw CannotPrepare(error.what());
  }
}

Support supports_sdpa(const OpSpec& spec, const Target& /*target*/) {
  const DType dtype = spec.inputs[0].dtype;
  if (dtype != DType::kBF16 && dtype != DType::kF16) return Rejection{fmt::format("takes bf16 or f16, not {}", dtype)};
  constexpr std::int64_t kMostDim = 128;
  for (const std::size_t index : {0U, 2U}) {
    const std::int64_t dim = spec.inputs[index].shape[-1];
    if (dim > kMostDim || dim % 8 != 0)
      return Rejection{fmt::format("takes heads of up to {} elements, a multiple of 8, not {}", kMostDim, dim)};
  }
  if (std::optional<std::string> reason = cudnn::why_unavailable()) return Rejection{std::move(*reason)};
  return std::nullopt;
}

/// Scores, softmax, and the weighted sum, one after the other.
KernelPlan plan_products(const KernelBinding& binding) {
  const auto& inputs = binding.inputs;
  const Shape& q = inputs[0].type.shape;
  const Operand scores = dense_operand({inputs[0].type.dtype, Shape{q[0], q[1], q[2], inputs[1].type.shape[2]}});
  const auto prepare_product = [&](const Operand& a, const Operand& b, const Operand& c, std::int64_t transpose_b) {
    const std::int64_t tf32 = binding.spec.attributes.get_int("tf32");
    const OpSpec spec{.op = Op::kMatmul,
                      .attributes = Attributes(Op::kMatmul, {{"transpose_b", transpose_b}, {"tf32", tf32}}),
                      .inputs = {a.type, b.type},
                      .outputs = {c.type},
                      .is_weight = {false, false}};
    const Operand operands[] = {a, b};
    return std::shared_ptr<const PreparedKernel>(
        kernel_named("cublaslt.matmul").prepare(spec, operands, {&c, 1}, binding.target));
  };
  const auto score = prepare_product(inputs[0], inputs[1], scores, 1);
  const auto weigh = prepare_product(scores, inputs[2], binding.outputs[0], 0);
  const cuda::SoftmaxRows softmax{
      .dtype = scores.type.dtype,
      .scale = static_cast<float>(binding.spec.attributes.get_float("scale")),
      .grid = cuda::to_grid(rows_of<2>(scores.type.shape, {scores.strides, scores.strides}))};
  const std::size_t scores_bytes = divide_up(scores.type.bytes(), 256) * 256;
  const auto launch = [=](const LaunchArguments& arguments) {
    void* const made = arguments.scratch;
    void* const workspace = static_cast<std::byte*>(arguments.scratch) + scores_bytes;
    const void* const weighted[] = {made, arguments.inputs[2]};
    score->launch({arguments.stream, arguments.inputs.first(2), {&made, 1}, workspace});
    cuda::launch_softmax(arguments.stream.native_handle(), softmax, made, made);
    weigh->launch({arguments.stream, weighted, arguments.outputs, workspace});
  };
  return {launch, scores_bytes + std::max(score->scratch_bytes(), weigh->scratch_bytes()),
          score->implementation() + " + cuda"};
}

const Listed<LibraryKernel> kCudnnAttention({.name = "cudnn.attention",
                                             .op = Op::kAttention,
                                             .device = DeviceKind::kCuda,
                                             .supports = supports_sdpa,
                                             .strided = kAllStrided,
                                             .plan = plan_sdpa});
const Listed<LibraryKernel> kCublasltAttention({.name = "cublaslt.attention",
                                                .op = Op::kAttention,
                                                .tried = Tried::kLast,
                                                .device = DeviceKind::kCuda,
                                                .supports = check_float_product,
                                                .strided = kAllStrided,
                                                .plan = plan_products});

}  // namespace
}  // namespace headroom
