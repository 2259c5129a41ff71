// attention on a GPU: o = softmax(scale * q k^T + bias) v;  q[b, h, s, d], k[b, g, t, d], v[b, g, t, e] -> o[b, h,
// s, e]
//
// fastest.attention   heads of up to 128 on Hopper, bf16 or f16: Headroom's own kernel, also with a bias, a mask or in
//                     causal order; without these cuDNN's where it was measured to be faster
//                     (attention/cuda_fastest.cpp).
// cudnn.attention     flash attention of cuDNN, bf16 or f16: scores never leave the chip. 660 TFLOP/s at 24 heads of
//                     4608 x 128 (H200, docs/gpu_facts.md). Heads may be interleaved, at multiples of 16 bytes. Its
//                     unified operation (9.19) shares heads of keys and gives the logsumexp, but has no bias, no mask
//                     and no causal order.
// cublaslt.attention  for the rest: two GEMMs and a softmax with the scores in scratch; f32 (on tensor cores where
//                     the attribute tf32 allows it), bf16 or f16. It takes as many queries at a time as have scores of
//                     kMostScoreBytes: all scores of one head of 65536 tokens would be 8 GiB in 16 bits.
//
// FLOPs   2 * b*h*s*t * (d + e), of which a causal order needs about half.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kernels/attention/algorithm.hpp"
#include "kernels/attention/attention_problem.hpp"
#include "kernels/attention/attention_softmax_cuda.hpp"
#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/core/cuda/or_cannot_prepare.hpp"
#include "kernels/core/library_kernel.hpp"
#include "kernels/vendor/cudnn/sdpa.hpp"

namespace headroom {
namespace {

KernelPlan plan_sdpa(const KernelBinding& binding) {
  return cuda::or_cannot_prepare([&] {  // no engine for this GPU, or one that lacks a library of its own (NVRTC)
    return attentions::bind(cudnn::make_sdpa_algorithm(attention_problem(binding.spec, binding.inputs, binding.outputs),
                                                       cuda::backend_of(binding)));
  });
}

Support supports_sdpa(const OpSpec& spec, const Target& /*target*/) {
  constexpr std::int64_t kMostDim = 256;
  if (Support rejection = attentions::check(spec, kMostDim)) return rejection;
  if (Support rejection = supports_bare_scores(spec)) return rejection;
  if (std::optional<std::string> reason = cudnn::why_unavailable()) return Rejection{std::move(*reason)};
  return std::nullopt;
}

Support supports_gemms(const OpSpec& spec, const Target& /*target*/) {
  if (cuda::is_element(spec.inputs[0].dtype)) return std::nullopt;
  return Rejection{fmt::format("takes f32, bf16 or f16, not {}", spec.inputs[0].dtype)};
}

constexpr std::size_t kMostScoreBytes = std::size_t{256} << 20U;

/// How many queries of every head are taken at a time.
std::int64_t queries_at_a_time(const AttentionProblem& problem) {
  constexpr std::int64_t kUnit = 64;  // of queries, for the GEMMs
  const std::int64_t scores_of_one = problem.batch * problem.heads * problem.keys;
  const auto bytes_of_one = static_cast<std::int64_t>(size_of(problem.dtype)) * scores_of_one;
  const std::int64_t most = static_cast<std::int64_t>(kMostScoreBytes) / bytes_of_one;
  const std::int64_t taken = most >= kUnit ? most / kUnit * kUnit : std::max<std::int64_t>(1, most);
  return std::min(taken, problem.queries);
}

/// Scores, softmax and the weighted sum, one after the other, for a number of queries.
class ChunkOfQueries {
 public:
  ChunkOfQueries(const KernelBinding& binding, const AttentionProblem& problem, std::int64_t queries)
      : problem_(problem), queries_(queries) {
    // Heads as [g, h/g]; those of keys and values are the same along the second axis.
    const std::int64_t sharers = problem.k.sharers, groups = problem.heads / sharers;
    const auto heads = [&](const AttentionProblem::Strides& strides, std::int64_t rows, std::int64_t columns) {
      const bool is_shared = strides.sharers > 1;
      return Operand{{problem.dtype, Shape{problem.batch, groups, sharers, rows, columns}},
                     Shape{strides.batch, is_shared ? strides.head : strides.head * sharers,
                           is_shared ? 0 : strides.head, strides.token, 1}};
    };
    const Operand q = heads(problem.q, queries, problem.key_dim), k = heads(problem.k, problem.keys, problem.key_dim),
                  v = heads(problem.v, problem.keys, problem.value_dim),
                  out = heads(problem.out, queries, problem.value_dim);
    const Operand scores = dense_operand({problem.dtype, Shape{problem.batch, groups, sharers, queries, problem.keys}});
    score_ = prepare_gemm(binding, q, k, scores, true);
    weigh_ = prepare_gemm(binding, scores, v, out, false);
    softmax_ = {.dtype = problem.dtype,
                .scale = static_cast<float>(problem.scale),
                .bias = static_cast<cuda::ScoreRows::Bias>(problem.bias),
                .may_see_none = problem.may_see_none(),
                .diagonal = problem.diagonal,
                .queries = queries,
                .grid = score_grid()};
    scores_bytes_ = part_bytes(scores.type.bytes());
  }

  [[nodiscard]] std::size_t scratch_bytes() const {
    return scores_bytes_ + std::max(score_->scratch_bytes(), weigh_->scratch_bytes());
  }
  [[nodiscard]] const std::string& implementation() const { return score_->implementation(); }

  void launch(const LaunchArguments& arguments, std::int64_t first_query) const {
    const auto size = static_cast<std::int64_t>(size_of(problem_.dtype));
    const auto bytes_to = [&](const AttentionProblem::Strides& strides, std::int64_t element_bytes) {
      return static_cast<std::size_t>(first_query * strides.token * element_bytes);
    };
    const DevicePointer scores = arguments.scratch;
    const DevicePointer workspace = arguments.scratch + scores_bytes_;
    const DevicePointer scored[] = {arguments.inputs[0] + bytes_to(problem_.q, size), arguments.inputs[1]};
    score_->launch({arguments.stream, scored, {&scores, 1}, workspace});

    cuda::ScoreRows softmax = softmax_;
    softmax.first_query = first_query;
    const std::int64_t bias_bytes = problem_.bias == AttentionProblem::Bias::kMask ? 1 : size;
    const void* const bias = problem_.bias == AttentionProblem::Bias::kNone
                                 ? nullptr
                                 : arguments.input<std::byte>(3) + bytes_to(problem_.bias_strides, bias_bytes);
    float* const logsumexp = problem_.has_logsumexp ? arguments.output<float>(1) + first_query : nullptr;
    cuda::launch_attention_softmax(arguments.stream.native_handle(), softmax, scores.address(), bias, logsumexp);

    const DevicePointer weighed[] = {scores, arguments.inputs[2]};
    const DevicePointer out = arguments.outputs[0] + bytes_to(problem_.out, size);
    weigh_->launch({arguments.stream, weighed, {&out, 1}, workspace});
  }

 private:
  static std::shared_ptr<const PreparedKernel> prepare_gemm(const KernelBinding& binding, const Operand& a,
                                                            const Operand& b, const Operand& c, bool transpose_b) {
    const bool tf32 = binding.spec.attributes[attr::kTf32];
    const OpSpec spec{.op = Op::kMatmul,
                      .attributes = Attributes(Op::kMatmul, {{attr::kTransposeB, transpose_b}, {attr::kTf32, tf32}}),
                      .inputs = {a.type, b.type},
                      .outputs = {c.type},
                      .is_weight = {false, false}};
    const Operand operands[] = {a, b};
    return kernel_named("cublaslt.matmul").prepare(spec, operands, {&c, 1}, binding.target);
  }

  /// Over [b, h, queries, t]: scores, bias and logsumexp.
  [[nodiscard]] cuda::GridRows<3> score_grid() const {
    const Shape extents{problem_.batch, problem_.heads, queries_, problem_.keys};
    const auto& bias = problem_.bias_strides;
    const auto& sums = problem_.logsumexp;
    const std::int64_t bias_step = problem_.bias == AttentionProblem::Bias::kNone ? 0 : 1;
    return cuda::to_grid(
        rows_of<3>(extents, {row_major_strides(extents), Shape{bias.batch, bias.head, bias.token, bias_step},
                             Shape{sums.batch, sums.head, problem_.has_logsumexp ? 1 : 0, 0}}));
  }

  AttentionProblem problem_;
  std::int64_t queries_;
  std::shared_ptr<const PreparedKernel> score_, weigh_;
  cuda::ScoreRows softmax_;
  std::size_t scores_bytes_ = 0;
};

KernelPlan plan_gemms(const KernelBinding& binding) {
  const AttentionProblem problem = attention_problem(binding.spec, binding.inputs, binding.outputs);
  const std::int64_t taken = queries_at_a_time(problem), rest = problem.queries % taken;
  const ChunkOfQueries whole(binding, problem, taken);
  const ChunkOfQueries last = rest == 0 ? whole : ChunkOfQueries(binding, problem, rest);
  const auto launch = [=](const LaunchArguments& arguments) {
    for (std::int64_t first = 0; first < problem.queries; first += taken)
      (first + taken <= problem.queries ? whole : last).launch(arguments, first);
  };
  return {launch, std::max(whole.scratch_bytes(), last.scratch_bytes()), whole.implementation() + " + cuda"};
}

}  // namespace

const Kernel& cudnn_attention() {
  static const LibraryKernel kernel({.name = "cudnn.attention",
                                     .op = Op::kAttention,
                                     .device = DeviceKind::kCuda,
                                     .supports = supports_sdpa,
                                     .strided = kAllStrided,
                                     .plan = plan_sdpa});
  return kernel;
}

const Kernel& cublaslt_attention() {
  static const LibraryKernel kernel({.name = "cublaslt.attention",
                                     .op = Op::kAttention,
                                     .device = DeviceKind::kCuda,
                                     .supports = supports_gemms,
                                     .strided = kAllStrided,
                                     .plan = plan_gemms});
  return kernel;
}

}  // namespace headroom
