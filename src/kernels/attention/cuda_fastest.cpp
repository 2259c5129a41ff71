// fastest.attention: the fastest algorithm, as measured: Headroom's own kernel for Hopper in one of its tiles
// (hopper.cu), or cuDNN's, which has neither bias nor mask nor a causal order.

#include <fmt/format.h>

#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "base/out_of_memory.hpp"
#include "kernels/attention/algorithm.hpp"
#include "kernels/attention/hopper.hpp"
#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/core/cuda/or_cannot_prepare.hpp"
#include "kernels/core/cuda/tuner_of.hpp"
#include "kernels/core/library_kernel.hpp"
#include "kernels/vendor/cudnn/installed.hpp"
#include "kernels/vendor/cudnn/sdpa.hpp"
#include "tune/fastest_algorithm.hpp"

namespace headroom::attentions {
namespace {

constexpr double kLeastFlops = 1e7;  // of work that is timed: 64 tokens of 20 heads of 64 take longer than a launch

/// From an operand's first element to its last.
std::size_t bytes_of(const AttentionProblem& problem, const AttentionProblem::Strides& strides, std::int64_t heads,
                     std::int64_t tokens, std::int64_t dim, std::size_t size) {
  const std::int64_t last =
      (problem.batch - 1) * strides.batch + (heads - 1) * strides.head + (tokens - 1) * strides.token + dim;
  return static_cast<std::size_t>(last) * size;
}

std::string to_text(const AttentionProblem::Strides& strides) {
  return fmt::format("{}/{}/{}", strides.batch, strides.head, strides.token);
}

std::string_view order_and_bias_of(const AttentionProblem& problem) {
  using enum AttentionProblem::Bias;
  if (problem.is_causal())
    return problem.bias == kNone ? ", causal" : problem.bias == kMask ? ", causal, mask" : ", causal, bias";
  return problem.bias == kNone ? "" : problem.bias == kMask ? ", mask" : ", bias";
}

/// For any number of tokens and images, in any layout.
tune::SizeKey size_key_of(const AttentionProblem& problem) {
  return {.family = fmt::format("attention {} {}/{} heads of {}/{}{}{}", problem.dtype, problem.heads,
                                problem.heads / problem.k.sharers, problem.key_dim, problem.value_dim,
                                problem.has_logsumexp ? ", logsumexp" : "", order_and_bias_of(problem)),
          .size = {problem.batch, problem.queries, problem.keys}};
}

tune::Work work_of(const AttentionProblem& problem) {
  const std::int64_t kv_heads = problem.heads / problem.k.sharers;
  const bool is_biased = problem.bias != AttentionProblem::Bias::kNone,
             is_mask = problem.bias == AttentionProblem::Bias::kMask;
  const std::size_t size = size_of(problem.dtype);
  const bool has_diagonal = problem.is_causal() && problem.diagonal != 0;
  const std::size_t sums = problem.has_logsumexp
                               ? bytes_of(problem, problem.logsumexp, problem.heads, problem.queries, 1, sizeof(float))
                               : 0;
  return {
      .text =
          fmt::format("attention {} {}x{}/{} heads, {} queries, {} keys of {}/{}, strides {} {} {} {}{}{}{}{}",
                      problem.dtype, problem.batch, problem.heads, kv_heads, problem.queries, problem.keys,
                      problem.key_dim, problem.value_dim, to_text(problem.q), to_text(problem.k), to_text(problem.v),
                      to_text(problem.out), problem.has_logsumexp ? ", logsumexp " + to_text(problem.logsumexp) : "",
                      order_and_bias_of(problem), is_biased ? " " + to_text(problem.bias_strides) : "",
                      has_diagonal ? fmt::format(", diagonal {}", problem.diagonal) : ""),
      .operands = {{.dtype = problem.dtype,
                    .bytes = bytes_of(problem, problem.q, problem.heads, problem.queries, problem.key_dim, size)},
                   {.dtype = problem.dtype,
                    .bytes = bytes_of(problem, problem.k, kv_heads, problem.keys, problem.key_dim, size)},
                   {.dtype = problem.dtype,
                    .bytes = bytes_of(problem, problem.v, kv_heads, problem.keys, problem.value_dim, size)},
                   {.dtype = problem.dtype,
                    .bytes = bytes_of(problem, problem.out, problem.heads, problem.queries, problem.value_dim, size),
                    .is_result = true},
                   {.dtype = DType::kF32, .bytes = sums, .is_result = true},
                   {.dtype = is_mask ? DType::kBool : problem.dtype,
                    .bytes = is_biased ? bytes_of(problem, problem.bias_strides, problem.heads, problem.queries,
                                                  problem.keys, is_mask ? 1 : size)
                                       : 0}},
      .size_key = size_key_of(problem)};
}

double flops_of(const AttentionProblem& problem) {
  return 2.0 * static_cast<double>(problem.batch * problem.heads * (problem.key_dim + problem.value_dim)) *
         visible_pairs(problem.queries, problem.keys, problem.diagonal);
}

/// Nothing where the library is not there, or has no engine for this.
std::optional<Algorithm> find_cudnn_algorithm(const AttentionProblem& problem, Backend& backend) {
  if (problem.is_causal() || problem.bias != AttentionProblem::Bias::kNone || cudnn::why_unavailable())
    return std::nullopt;
  try {
    return cudnn::make_sdpa_algorithm(problem, backend);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error&) {  // no engine for this GPU, or one that lacks a library of its own (NVRTC)
    return std::nullopt;
  }
}

/// The one that was fastest before.
std::optional<Algorithm> find_known(const AttentionProblem& problem, Backend& backend, const std::string& name) {
  if (std::optional<Algorithm> algorithm = find_hopper_algorithm(problem, name)) return algorithm;
  if (cudnn::why_unavailable() || name != cudnn::version_text()) return std::nullopt;
  return find_cudnn_algorithm(problem, backend);
}

/// The fastest algorithm for other numbers of tokens, unless it is far from the best guess for these.
std::optional<Algorithm> find_nearest(const AttentionProblem& problem, Backend& backend, const std::string& name) {
  constexpr std::size_t kNear = 4;  // of the best guesses
  const std::vector<HopperTile> best = best_hopper_tiles(problem, hopper_clusters_at_once);
  for (const HopperTile& tile : best | std::views::take(kNear))
    if (name_of(tile) == name) return make_hopper_algorithm(problem, tile);
  return find_hopper_algorithm(problem, name) ? std::nullopt : find_known(problem, backend, name);
}

std::vector<Algorithm> list_algorithms(const AttentionProblem& problem, Backend& backend, bool is_timed) {
  std::vector<Algorithm> algorithms;
  for (const HopperTile& tile : best_hopper_tiles(problem, hopper_clusters_at_once)) {
    algorithms.push_back(make_hopper_algorithm(problem, tile));
    if (!is_timed) return algorithms;
  }
  if (std::optional<Algorithm> algorithm = find_cudnn_algorithm(problem, backend))
    algorithms.push_back(*std::move(algorithm));
  return algorithms;
}

void run_trial(const AttentionProblem& problem, const Algorithm& algorithm, void* stream,
               std::span<void* const> operands, void* workspace) {
  algorithm.run(stream,
                {.q = operands[0],
                 .k = operands[1],
                 .v = operands[2],
                 .out = operands[3],
                 .logsumexp = problem.has_logsumexp ? static_cast<float*>(operands[4]) : nullptr,
                 .bias = problem.bias == AttentionProblem::Bias::kNone ? nullptr : operands[5]},
                workspace);
}

Algorithm find_algorithm(const AttentionProblem& problem, const DeviceTarget& target) {
  Backend& backend = *target.backend;
  const bool is_timed = flops_of(problem) >= kLeastFlops;
  return tune::fastest_algorithm<Algorithm>(
      *backend.context<cuda::TunerOf<versions>>(), work_of(problem), is_timed, target.new_work,
      {.list = [&] { return list_algorithms(problem, backend, is_timed); },
       .find = [&](const std::string& name) { return find_known(problem, backend, name); },
       .run = [&](const auto&... trial) { run_trial(problem, trial...); },
       .find_nearest = [&](const std::string& name) { return find_nearest(problem, backend, name); },
       .guess = [&] { return list_algorithms(problem, backend, false); }});
}

KernelPlan plan(const KernelBinding& binding) {
  return cuda::or_cannot_prepare([&] {
    return bind(find_algorithm(attention_problem(binding.spec, binding.inputs, binding.outputs), binding.target));
  });
}

}  // namespace

std::string versions() {
  return fmt::format("attention {}, {}", kHopperRevision,
                     cudnn::why_unavailable() ? "without cuDNN" : cudnn::version_text());
}

Support check(const OpSpec& spec, std::int64_t most_dim) {
  const DType dtype = spec.inputs[0].dtype;
  if (dtype != DType::kBF16 && dtype != DType::kF16) return Rejection{fmt::format("takes bf16 or f16, not {}", dtype)};
  for (const std::size_t index : {0U, 2U})
    if (const std::int64_t dim = spec.inputs[index].shape[-1]; dim > most_dim || dim % 8 != 0)
      return Rejection{fmt::format("takes heads of up to {} elements, a multiple of 8, not {}", most_dim, dim)};
  for (const TensorType& input : spec.inputs)
    if (input.shape.numel() == 0) return Rejection{"an operand has no elements"};
  return std::nullopt;
}

KernelPlan bind(Algorithm algorithm) {
  KernelPlan made{
      .launch = {}, .scratch_bytes = algorithm.workspace_bytes, .implementation = std::move(algorithm.name)};
  made.launch = [run = std::move(algorithm.run)](const LaunchArguments& arguments) {
    run(arguments.stream.native_handle(),
        {.q = arguments.input(0),
         .k = arguments.input(1),
         .v = arguments.input(2),
         .out = arguments.output(0),
         .logsumexp = arguments.outputs.size() == 2 ? arguments.output<float>(1) : nullptr,
         .bias = arguments.inputs.size() == 4 ? arguments.input(3) : nullptr},
        arguments.scratch_memory());
  };
  return made;
}

}  // namespace headroom::attentions

namespace headroom {

const Kernel& fastest_attention() {
  static const LibraryKernel kernel({.name = "fastest.attention",
                                     .op = Op::kAttention,
                                     .device = DeviceKind::kCuda,
                                     .supports = attentions::why_not_hopper,
                                     .strided = kAllStrided,
                                     .plan = attentions::plan});
  return kernel;
}

}  // namespace headroom
