#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/out_of_memory.hpp"
#include "kernels/conv/convolution_epilogue_cuda.hpp"
#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/elementwise/elementwise_cuda.hpp"
#include "kernels/vendor/cudnn/convolution.hpp"
#include "kernels/vendor/cudnn/convolution_graph.cuh"
#include "kernels/vendor/cudnn/convolution_trial.hpp"

namespace headroom::cudnn {
namespace {

using convolutions::Algorithm;
using convolutions::Operands;
using convolutions::Problem;

constexpr std::size_t kListed = 48;  // of each heuristic: in f32 most of the first round to TF32
constexpr std::size_t kMostFused = 3, kMostPlain = 3;
constexpr std::size_t kMostRefused = 8;  // by trials: each engine may have to be compiled
constexpr std::uintptr_t kAlignment = 16;

/// Whether an engine computes the sums directly (no Winograd or FFT), with the rounding that the problem allows,
/// deterministically.
bool is_faithful(const EngineConfig& engine, const Problem& problem) {
  for (const cudnnBackendNumericalNote_t note :
       {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
        CUDNN_NUMERICAL_NOTE_FFT, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, CUDNN_NUMERICAL_NOTE_WINOGRAD})
    if (engine.has(note)) return false;
  const bool takes_tensor_cores = problem.dtype != DType::kF32 || problem.rounds_to_tf32;
  return takes_tensor_cores || !engine.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
}

cuda::ConvolutionEpilogue make_epilogue(const Problem& problem) {
  const Shape strides = dense_operand({problem.dtype, problem.y, problem.layout}).strides;
  const Shape of_bias{0, problem.bias ? 1 : 0, 0, 0};
  return {.activation = problem.activation,
          .has_bias = problem.bias.has_value(),
          .has_residual = problem.has_residual,
          .dtype = problem.dtype,
          .bias = problem.bias.value_or(problem.dtype),
          .grid = cuda::longest_grid<4>(problem.y, {of_bias, strides, strides, strides})};
}

cuda::ElementwiseRows make_relu(const Problem& problem) {
  const Operand y = dense_operand({problem.dtype, problem.y, problem.layout});
  return {.op = Op::kRelu,
          .dtype = problem.dtype,
          .scalars = {},
          .grid = cuda::longest_grid<4>(problem.y, elementwise_strides({&y, 1}, y))};
}

/// A convolution with one engine.
class EngineRun {
 public:
  EngineRun(const Problem& problem, Fusion fusion, Plan plan)
      : is_whole_(fusion == Fusion::kWhole),
        has_bias_(problem.bias.has_value()),
        has_residual_(problem.has_residual),
        adds_kernel_(!is_whole_ && has_epilogue(problem)),
        has_relu_(is_whole_ && problem.activation == Activation::kRelu),
        epilogue_(make_epilogue(problem)),
        relu_(make_relu(problem)),
        sums_bytes_(made_dtype(problem, fusion) == problem.dtype
                        ? 0
                        : part_bytes(static_cast<std::size_t>(problem.y.numel()) * sizeof(float))),
        plan_(std::move(plan)) {}

  [[nodiscard]] std::size_t workspace_bytes() const { return sums_bytes_ + plan_.workspace_bytes(); }

  /// Whether the engine's part of it can be recorded; nothing runs.
  [[nodiscard]] bool can_be_recorded(const Operands& operands, void* workspace) const {
    const BoundOperands bound = bind(operands, workspace);
    return plan_.can_be_recorded(bound.get(), workspace_of_plan(workspace));
  }

  void operator()(void* stream, const Operands& operands, void* workspace) const {
    const BoundOperands bound = bind(operands, workspace);
    for (const Bound& operand : bound.get())
      if (reinterpret_cast<std::uintptr_t>(operand.address) % kAlignment != 0)
        fail("a convolution by cuDNN takes operands at multiples of {} bytes, and one lies elsewhere", kAlignment);
    plan_.run(stream, bound.get(), workspace_of_plan(workspace));
    if (adds_kernel_)
      cuda::launch_convolution_epilogue(stream, epilogue_,
                                        static_cast<const float*>(sums_bytes_ > 0 ? workspace : operands.y),
                                        operands.bias, operands.residual, operands.y);
    if (has_relu_) {
      const void* const sums = operands.y;
      cuda::launch_elementwise(stream, relu_, &sums, operands.y);
    }
  }

 private:
  struct BoundOperands {
    std::array<Bound, 5> bound;
    std::size_t count;
    [[nodiscard]] std::span<const Bound> get() const { return std::span(bound).first(count); }
  };
  [[nodiscard]] BoundOperands bind(const Operands& operands, void* workspace) const {
    const void* const made = sums_bytes_ > 0 ? workspace : operands.y;
    BoundOperands all{{{{kConvolved, operands.x}, {kFilter, operands.weight}, {kMade, made}}}, 3};
    if (is_whole_ && has_bias_) all.bound[all.count++] = {kAddedBias, operands.bias};
    if (is_whole_ && has_residual_) all.bound[all.count++] = {kAddedResidual, operands.residual};
    return all;
  }
  [[nodiscard]] void* workspace_of_plan(void* workspace) const {
    return static_cast<std::byte*>(workspace) + sums_bytes_;
  }

  bool is_whole_, has_bias_, has_residual_, adds_kernel_, has_relu_;
  cuda::ConvolutionEpilogue epilogue_;
  cuda::ElementwiseRows relu_;
  std::size_t sums_bytes_;  // before the plan's workspace; 0 if they are y
  Plan plan_;
};

constexpr std::string_view kFused = " fused", kFusedBeforeRelu = " fused + relu", kWithKernel = " + cuda";

/// The engines for a problem.
class Engines {
 public:
  Engines(const Problem& problem, Backend& backend)
      : problem_(problem), backend_(backend), context_(backend.context<Context>()) {}

  /// At most `most` algorithms that pass their trials, in the order of the heuristics.
  [[nodiscard]] std::vector<Algorithm> first(Fusion fusion, std::size_t most) {
    std::vector<Algorithm> algorithms;
    std::size_t refused = 0;
    for_each(fusion, algorithms, [&](const EngineConfig& engine) {
      const std::shared_ptr<const EngineRun> run = make(engine, fusion);
      if (run != nullptr && passes_trial(*run, fusion))
        algorithms.push_back(algorithm_of(engine, fusion, run));
      else if (run != nullptr)
        ++refused;
      return algorithms.size() < most && refused < kMostRefused;
    });
    return algorithms;
  }

  /// By its name, without asking heuristics, and without a trial: names are those of algorithms that passed it.
  [[nodiscard]] std::optional<Algorithm> find(std::string_view name) const {
    const bool is_whole = name.ends_with(kFused) || name.ends_with(kFusedBeforeRelu);
    const Fusion fusion = is_whole ? Fusion::kWhole : Fusion::kSums;
    const std::string begin = version_text() + " ";
    const std::string_view end = end_of(fusion);
    if (!name.starts_with(begin) || !name.ends_with(end)) return std::nullopt;
    try {
      const ConvolutionGraph graph(problem_, fusion, *context_);
      const std::string_view engine_name = name.substr(begin.size(), name.size() - begin.size() - end.size());
      const std::optional<EngineConfig> engine = find_engine(graph.get(), engine_name);
      if (!engine || !is_faithful(*engine, problem_)) return std::nullopt;
      const std::shared_ptr<const EngineRun> run = make(*engine, fusion);
      return run != nullptr ? std::optional(algorithm_of(*engine, fusion, run)) : std::nullopt;
    } catch (const Error&) {  // no such graph, or no such engine for it
      return std::nullopt;
    }
  }

  /// Frees the memory of trials.
  void end_trials() { trial_.reset(); }

  /// The library's message if it took no such graph.
  [[nodiscard]] const std::string& why_not() const { return why_not_; }

 private:
  /// Calls use(engine) for the faithful engines that the heuristics propose for one graph, each once, until it
  /// returns false; for none if the library takes no such graph. A heuristic is asked when those before it have not
  /// been enough, the last one if nothing has been `found`.
  template <class Use>
  void for_each(Fusion fusion, const std::vector<Algorithm>& found, const Use& use) {
    try {
      const ConvolutionGraph graph(problem_, fusion, *context_);
      std::vector<std::string> seen;
      for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK}) {
        if (mode == CUDNN_HEUR_MODE_FALLBACK && !found.empty()) return;
        for (Descriptor& config : list_configs(graph.get(), mode, kListed)) {
          const EngineConfig engine = describe(std::move(config));
          if (!is_faithful(engine, problem_) || std::ranges::count(seen, engine.name) > 0) continue;
          seen.push_back(engine.name);
          if (!use(engine)) return;
        }
      }
    } catch (const Error& error) {
      why_not_ = fmt::format(": {}", error.what());
    }
  }

  [[nodiscard]] std::string_view end_of(Fusion fusion) const {
    if (fusion == Fusion::kWhole) return problem_.activation == Activation::kRelu ? kFusedBeforeRelu : kFused;
    return has_epilogue(problem_) ? kWithKernel : "";
  }
  [[nodiscard]] std::string name_of(const EngineConfig& engine, Fusion fusion) const {
    return fmt::format("{} {}{}", version_text(), engine.name, end_of(fusion));
  }

  /// Null if the engine cannot run here.
  [[nodiscard]] std::shared_ptr<const EngineRun> make(const EngineConfig& engine, Fusion fusion) const {
    std::optional<Plan> plan = Plan::make(context_, engine.config);
    return plan ? std::make_shared<const EngineRun>(problem_, fusion, *std::move(plan)) : nullptr;
  }

  /// Whether the engine can be recorded and, with the epilogue in its graph, keeps NaN and infinities: some engines
  /// for one channel make 0 of -infinity (cuDNN 9.19, f16). True if there is no memory for the trial.
  [[nodiscard]] bool passes_trial(const EngineRun& run, Fusion fusion) {
    try {
      if (!trial_) trial_.emplace(problem_, backend_);
      const std::size_t bytes = run.workspace_bytes();
      if (!run.can_be_recorded(trial_->operands(), trial_->workspace(bytes))) return false;
      return fusion == Fusion::kSums || trial_->keeps_special_values(std::cref(run), bytes);
    } catch (const OutOfMemory&) {
      return true;
    } catch (const Error&) {  // refused at its launch
      return false;
    }
  }

  [[nodiscard]] Algorithm algorithm_of(const EngineConfig& engine, Fusion fusion,
                                       const std::shared_ptr<const EngineRun>& run) const {
    return {
        .name = name_of(engine, fusion),
        .workspace_bytes = run->workspace_bytes(),
        .run = [run](void* stream, const Operands& operands, void* workspace) { (*run)(stream, operands, workspace); }};
  }

  const Problem& problem_;
  Backend& backend_;
  std::shared_ptr<Context> context_;
  std::optional<ConvolutionTrial> trial_;  ///< shared by the engines
  std::string why_not_;
};

}  // namespace

std::vector<Algorithm> make_algorithms(const Problem& problem, Backend& backend, bool is_large) {
  Engines engines(problem, backend);
  std::vector<Algorithm> algorithms;
  const auto add = [&](Fusion fusion, std::size_t most) {
    for (Algorithm& algorithm : engines.first(fusion, most)) algorithms.push_back(std::move(algorithm));
  };
  if (has_epilogue(problem) && is_large) add(Fusion::kWhole, kMostFused);
  add(Fusion::kSums, is_large ? kMostPlain : 1);
  if (has_epilogue(problem) && algorithms.empty()) add(Fusion::kWhole, 1);
  engines.end_trials();
  backend.release_unused();  // memory reports of models must not include that of trials
  if (algorithms.empty())
    fail("{} has no engine that passes its trial for {}{}", version_text(), to_text(problem), engines.why_not());
  return algorithms;
}

std::optional<Algorithm> find_algorithm(const Problem& problem, Backend& backend, const std::string& name) {
  return Engines(problem, backend).find(name);
}

}  // namespace headroom::cudnn
