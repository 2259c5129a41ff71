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
#include <vector>

#include "kernels/cublaslt/tf32.hpp"
#include "kernels/cuda/cuda_kernel.hpp"
#include "kernels/cuda_kernels.hpp"
#include "kernels/cudnn/sdpa.hpp"
#include "kernels/norm_cuda.hpp"
#include "kernels/support.hpp"

namespace headroom {
namespace {

constexpr std::size_t kAlignment = 256;  // of what lies in scratch
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::byte* at(void* base, std::size_t offset) { return static_cast<std::byte*>(base) + offset; }

cudnn::SdpaSpec::Strides strides_of(const Operand& operand) {
  const Shape& strides = operand.strides;
  return {strides[0], strides[1], strides[2], strides[3]};
}

/// cuDNN's plan.
class PreparedSdpa final : public PreparedKernel {
 public:
  PreparedSdpa(const OpSpec& spec, std::span<const Operand> inputs, const Operand& output)
      : plan_({.dtype = spec.inputs[0].dtype,
               .batch = spec.inputs[0].shape[0],
               .heads = spec.inputs[0].shape[1],
               .queries = spec.inputs[0].shape[2],
               .keys = spec.inputs[2].shape[2],
               .dim = spec.inputs[0].shape[3],
               .value_dim = spec.inputs[2].shape[3],
               .scale = spec.attributes.get_float("scale"),
               .q = strides_of(inputs[0]),
               .k = strides_of(inputs[1]),
               .v = strides_of(inputs[2]),
               .o = strides_of(output)}) {}

  [[nodiscard]] std::size_t scratch_bytes() const override { return plan_.workspace_bytes(); }
  [[nodiscard]] std::string implementation() const override { return plan_.implementation(); }

  void launch(const LaunchArguments& arguments) const override {
    plan_.run(arguments.stream.native_handle(), arguments.inputs[0], arguments.inputs[1], arguments.inputs[2],
              arguments.outputs[0], arguments.scratch);
  }

 private:
  cudnn::Sdpa plan_;
};

/// Scores, softmax, and the weighted sum, one after the other.
class PreparedByProducts final : public PreparedKernel {
 public:
  PreparedByProducts(const OpSpec& spec, std::span<const Operand> inputs, const Operand& output, const Target& target) {
    const TensorType scores = scores_type(spec);
    const Operand dense = dense_operand(scores);
    scores_bytes_ = aligned(scores.bytes());
    const std::int64_t tf32 = spec.attributes.get_int("tf32");
    const OpSpec first{.op = Op::kMatmul,
                       .attributes = Attributes(Op::kMatmul, {{"transpose_b", std::int64_t{1}}, {"tf32", tf32}}),
                       .inputs = {spec.inputs[0], spec.inputs[1]},
                       .outputs = {scores},
                       .is_weight = {false, false}};
    const OpSpec second{.op = Op::kMatmul,
                        .attributes = Attributes(Op::kMatmul, {{"tf32", tf32}}),
                        .inputs = {scores, spec.inputs[2]},
                        .outputs = {output.type},
                        .is_weight = {false, false}};
    const std::array first_inputs{inputs[0], inputs[1]};
    const std::array second_inputs{dense, inputs[2]};
    scores_ = cublaslt_matmul().prepare(first, first_inputs, {&dense, 1}, target);
    sum_ = cublaslt_matmul().prepare(second, second_inputs, {&output, 1}, target);
    softmax_ = {.dtype = scores.dtype,
                .scale = static_cast<float>(spec.attributes.get_float("scale")),
                .grid = cuda::to_grid(rows_of<2>(scores.shape, {dense.strides, dense.strides}))};
  }

  [[nodiscard]] std::size_t scratch_bytes() const override {
    return scores_bytes_ + std::max(scores_->scratch_bytes(), sum_->scratch_bytes());
  }
  [[nodiscard]] std::string implementation() const override { return scores_->implementation() + " + cuda"; }

  void launch(const LaunchArguments& arguments) const override {
    void* const scores = arguments.scratch;
    void* const workspace = at(arguments.scratch, scores_bytes_);
    const void* const weighted[] = {scores, arguments.inputs[2]};
    scores_->launch({arguments.stream, arguments.inputs.first(2), {&scores, 1}, workspace});
    cuda::launch_softmax(arguments.stream.native_handle(), softmax_, scores, scores);
    sum_->launch({arguments.stream, weighted, arguments.outputs, workspace});
  }

  static TensorType scores_type(const OpSpec& spec) {
    const Shape& q = spec.inputs[0].shape;
    return {spec.inputs[0].dtype, Shape{q[0], q[1], q[2], spec.inputs[1].shape[2]}};
  }

 private:
  std::size_t scores_bytes_ = 0;
  std::unique_ptr<PreparedKernel> scores_, sum_;
  cuda::SoftmaxRows softmax_;
};

class CudaAttention : public cuda::LibraryKernel {
 public:
  [[nodiscard]] Op op() const override { return Op::kAttention; }
};

class CudnnAttention final : public CudaAttention {
 public:
  [[nodiscard]] std::string_view name() const override { return "cudnn.attention"; }

  [[nodiscard]] Support supports(const OpSpec& spec, const Target& target) const override {
    if (Support rejection = check_op(Op::kAttention, DeviceKind::kCuda, spec, target)) return rejection;
    const DType dtype = spec.inputs[0].dtype;
    if (dtype != DType::kBF16 && dtype != DType::kF16)
      return Rejection{fmt::format("takes bf16 or f16, not {}", dtype)};
    constexpr std::int64_t kMostDim = 128;
    for (const std::size_t index : {0U, 2U}) {
      const std::int64_t dim = spec.inputs[index].shape[-1];
      if (dim > kMostDim || dim % 8 != 0)
        return Rejection{fmt::format("takes heads of up to {} elements, a multiple of 8, not {}", kMostDim, dim)};
    }
    for (const TensorType& input : spec.inputs)
      if (input.shape.numel() == 0) return Rejection{"an operand has no elements"};
    if (std::optional<std::string> reason = cudnn::why_unavailable()) return Rejection{std::move(*reason)};
    return std::nullopt;
  }

  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const OpSpec& spec, std::span<const Operand> inputs,
                                                        std::span<const Operand> outputs,
                                                        const Target& /*target*/) const override {
    try {
      return std::make_unique<PreparedSdpa>(spec, inputs, outputs[0]);
    } catch (const Error& error) {  // no engine for this GPU, or one that lacks a library of its own (NVRTC)
      throw CannotPrepare(error.what());
    }
  }
};

class AttentionByProducts final : public CudaAttention {
 public:
  [[nodiscard]] std::string_view name() const override { return "cublaslt.attention"; }

  [[nodiscard]] Support supports(const OpSpec& spec, const Target& target) const override {
    if (Support rejection = check_op(Op::kAttention, DeviceKind::kCuda, spec, target)) return rejection;
    const DType dtype = spec.inputs[0].dtype;
    if (!cuda::is_element(dtype)) return Rejection{fmt::format("takes f32, bf16 or f16, not {}", dtype)};
    for (const TensorType& input : spec.inputs)
      if (input.shape.numel() == 0) return Rejection{"an operand has no elements"};
    return std::nullopt;
  }

  [[nodiscard]] std::string_view compute_name(const OpSpec& spec) const override {
    return cublaslt::compute_name(spec);
  }

  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const OpSpec& spec, std::span<const Operand> inputs,
                                                        std::span<const Operand> outputs,
                                                        const Target& target) const override {
    return std::make_unique<PreparedByProducts>(spec, inputs, outputs[0], target);
  }
};

}  // namespace

const Kernel& cudnn_attention() {
  static const CudnnAttention kernel;
  return kernel;
}
const Kernel& cublaslt_attention() {
  static const AttentionByProducts kernel;
  return kernel;
}

}  // namespace headroom
