// fastest.attention: the fastest way there is, as measured: our own kernel for Hopper in one of its tiles (hopper.cu), or cuDNN's.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "base/out_of_memory.hpp"
#include "kernels/attention/hopper.hpp"
#include "kernels/attention/way.hpp"
#include "kernels/cuda/cuda_kernel.hpp"
#include "kernels/cuda/search.hpp"
#include "kernels/cudnn/installed.hpp"
#include "kernels/cudnn/sdpa.hpp"
#include "kernels/library_kernel.hpp"

namespace headroom::attentions {
namespace {

constexpr double kLeastFlops =
    1e7;  // work whose way is measured: 64 tokens of 20 heads of 64 take longer than a launch

/// What was fastest on a device.
class Context {
 public:
  explicit Context(Backend& backend) : search_(backend, versions()) {}
  [[nodiscard]] cuda::Search& search() noexcept { return search_; }

 private:
  static std::string versions() {
    const std::string library = cudnn::why_unavailable() ? "without cuDNN" : cudnn::version_text();
    return fmt::format("attention {}, {}", kHopperRevision, library);
  }

  cuda::Search search_;
};

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

cuda::Work work_of(const AttentionProblem& problem) {
  const std::int64_t kv_heads = problem.heads / problem.k.sharers;
  const std::size_t size = size_of(problem.dtype);
  const std::size_t sums = problem.has_logsumexp
                               ? bytes_of(problem, problem.logsumexp, problem.heads, problem.queries, 1, sizeof(float))
                               : 0;
  return {
      .text =
          fmt::format("attention {} {}x{}/{} heads, {} queries, {} keys of {}/{}, strides {} {} {} {}{}", problem.dtype,
                      problem.batch, problem.heads, kv_heads, problem.queries, problem.keys, problem.key_dim,
                      problem.value_dim, to_text(problem.q), to_text(problem.k), to_text(problem.v),
                      to_text(problem.out), problem.has_logsumexp ? ", logsumexp " + to_text(problem.logsumexp) : ""),
      .operands = {{.dtype = problem.dtype,
                    .bytes = bytes_of(problem, problem.q, problem.heads, problem.queries, problem.key_dim, size)},
                   {.dtype = problem.dtype,
                    .bytes = bytes_of(problem, problem.k, kv_heads, problem.keys, problem.key_dim, size)},
                   {.dtype = problem.dtype,
                    .bytes = bytes_of(problem, problem.v, kv_heads, problem.keys, problem.value_dim, size)},
                   {.dtype = problem.dtype,
                    .bytes = bytes_of(problem, problem.out, problem.heads, problem.queries, problem.value_dim, size),
                    .is_result = true},
                   {.dtype = DType::kF32, .bytes = sums, .is_result = true}}};
}

double flops_of(const AttentionProblem& problem) {
  return 2.0 * static_cast<double>(problem.batch * problem.heads * problem.queries) *
         static_cast<double>(problem.keys * (problem.key_dim + problem.value_dim));
}

/// Nothing where the library is not there, or has no engine for this.
std::optional<Way> make_cudnn_way(const AttentionProblem& problem, Backend& backend) {
  if (cudnn::why_unavailable()) return std::nullopt;
  try {
    const auto sdpa = std::make_shared<const cudnn::Sdpa>(problem, backend);
    return Way{.name = sdpa->implementation(),
               .workspace_bytes = sdpa->workspace_bytes(),
               .run = [sdpa](void* stream, const Operands& operands, void* workspace) {
                 sdpa->run(stream, {operands.q, operands.k, operands.v, operands.out, operands.logsumexp}, workspace);
               }};
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error&) {  // no engine for this GPU, or one that lacks a library of its own (NVRTC)
    return std::nullopt;
  }
}

/// The one that was fastest before.
std::optional<Way> find_known(const AttentionProblem& problem, Backend& backend, const std::string& name) {
  if (std::optional<Way> way = find_hopper_way(problem, name)) return way;
  std::optional<Way> way = make_cudnn_way(problem, backend);
  return way && way->name == name ? std::move(way) : std::nullopt;
}

std::vector<Way> list_ways(const AttentionProblem& problem, Backend& backend, bool is_measured) {
  std::vector<Way> ways;
  for (const HopperTile& tile : best_hopper_tiles(problem, hopper_clusters_at_once)) {
    ways.push_back(make_hopper_way(problem, tile));
    if (!is_measured) break;
  }
  if (is_measured)
    if (std::optional<Way> way = make_cudnn_way(problem, backend)) ways.push_back(*std::move(way));
  return ways;
}

struct Chosen {
  Way way;
  bool is_measured = false;  // here or before
};

Chosen find_way(const AttentionProblem& problem, Backend& backend) {
  const bool is_large = flops_of(problem) >= kLeastFlops;
  cuda::Search& search = backend.context<Context>()->search();
  const cuda::Work work = work_of(problem);
  if (is_large)
    if (const std::optional<std::string> known = search.find_known(work.text))
      if (std::optional<Way> way = find_known(problem, backend, *known)) return {*std::move(way), true};
  std::vector<Way> ways = list_ways(problem, backend, is_large);
  if (ways.empty()) fail("no tile of attention on Hopper runs on this device");
  cuda::Choice choice;
  if (is_large) {
    std::vector<cuda::Candidate> candidates;
    for (const Way& way : ways) candidates.push_back({way.name, way.workspace_bytes});
    const std::optional<cuda::Choice> measured = search.find_fastest(
        work, candidates, [&](std::size_t index, void* stream, std::span<void* const> operands, void* workspace) {
          ways[index].run(stream,
                          {.q = operands[0],
                           .k = operands[1],
                           .v = operands[2],
                           .out = operands[3],
                           .logsumexp = problem.has_logsumexp ? static_cast<float*>(operands[4]) : nullptr},
                          workspace);
        });
    if (!measured) fail("all {} ways to run {} were refused", ways.size(), work.text);
    choice = *measured;
  }
  return {std::move(ways[choice.index]), choice.is_measured};
}

KernelPlan plan(const KernelBinding& binding) {
  try {
    Chosen chosen =
        find_way(attention_problem(binding.spec, binding.inputs, binding.outputs), cuda::backend_of(binding));
    KernelPlan made = bind(std::move(chosen.way));
    if (chosen.is_measured) made.implementation += ", fastest as measured";
    return made;
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& error) {
    throw CannotPrepare(error.what());
  }
}

const Listed<LibraryKernel> kFastestAttention({.name = "fastest.attention",
                                               .op = Op::kAttention,
                                               .tried = Tried::kFirst,
                                               .device = DeviceKind::kCuda,
                                               .supports = why_not_hopper,
                                               .strided = kAllStrided,
                                               .plan = plan});

}  // namespace

KernelPlan bind(Way way) {
  KernelPlan made{.launch = {}, .scratch_bytes = way.workspace_bytes, .implementation = std::move(way.name)};
  made.launch = [run = std::move(way.run)](const LaunchArguments& arguments) {
    run(arguments.stream.native_handle(),
        {.q = arguments.input(0),
         .k = arguments.input(1),
         .v = arguments.input(2),
         .out = arguments.output(0),
         .logsumexp = arguments.outputs.size() == 2 ? arguments.output<float>(1) : nullptr},
        arguments.scratch_memory());
  };
  return made;
}

}  // namespace headroom::attentions
