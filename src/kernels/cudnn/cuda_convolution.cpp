// Candidates are engines for the whole, and engines for the sums with our kernel behind them.

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "kernels/convolution_epilogue_cuda.hpp"
#include "kernels/cuda/cuda_kernel.hpp"
#include "kernels/cudnn/convolution_graph.cuh"

namespace headroom::cudnn {
namespace {

constexpr double kLeastFlops = 2e8;  // work whose engine is measured; an engine takes up to a second to compile
constexpr std::size_t kListed = 48;  // of each heuristic: in f32 most of the first round to TF32
constexpr std::size_t kMostFused = 3, kMostPlain = 3;
constexpr std::uintptr_t kAlignment = 16;

/// A way to run a convolution.
struct Way {
  Plan plan;
  std::string name;
  Fusion fusion;
};

/// Whether an engine adds up the products themselves, rounded as the problem allows, the same way in every run.
bool is_faithful(const EngineConfig& engine, const ConvolutionProblem& problem) {
  for (const cudnnBackendNumericalNote_t note :
       {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
        CUDNN_NUMERICAL_NOTE_FFT, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, CUDNN_NUMERICAL_NOTE_WINOGRAD})
    if (engine.has(note)) return false;
  const bool takes_tensor_cores = problem.dtype != DType::kF32 || problem.rounds_to_tf32;
  return takes_tensor_cores || !engine.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
}

double flops_of(const ConvolutionProblem& problem) {
  const Shape& weight = problem.weight;
  const Shape& pixels = problem.is_transposed ? problem.x : problem.y;
  return 2 * static_cast<double>(pixels.numel()) * static_cast<double>(weight[1] * weight[2] * weight[3]);
}

bool has_epilogue(const ConvolutionProblem& problem) {
  return problem.bias || problem.has_residual || problem.activation != Activation::kNone;
}

cuda::ConvolutionEpilogue make_epilogue(const ConvolutionProblem& problem) {
  const Shape strides = dense_operand({problem.dtype, problem.y, problem.layout}).strides;
  const Shape of_bias{0, problem.bias ? 1 : 0, 0, 0};
  return {.activation = problem.activation,
          .has_bias = problem.bias.has_value(),
          .has_residual = problem.has_residual,
          .dtype = problem.dtype,
          .bias = problem.bias.value_or(problem.dtype),
          .grid = cuda::longest_grid<3>(problem.y, {of_bias, strides, strides})};
}

}  // namespace

std::optional<std::string> why_not_installed() {
  try {
    static_cast<void>(library());
  } catch (const Error& error) {
    return error.what();
  }
  return std::nullopt;
}

std::string to_text(const ConvolutionProblem& problem) {
  return fmt::format("{} {} x={} weight={} y={} stride={} padding={} dilation={} groups={}{} bias={}{} activation={}{}",
                     problem.is_transposed ? "transposed" : "convolution", problem.dtype, problem.x, problem.weight,
                     problem.y, problem.how.stride, problem.how.padding, problem.how.dilation, problem.how.groups,
                     problem.layout == Layout::kChannelsLast ? " channels last" : "",
                     problem.bias ? name_of(*problem.bias) : "none", problem.has_residual ? " residual" : "",
                     static_cast<int>(problem.activation), problem.rounds_to_tf32 ? " tf32" : "");
}

class Convolution::Impl {
 public:
  Impl(const ConvolutionProblem& problem, Backend& backend)
      : problem_(problem), epilogue_(make_epilogue(problem)), context_(backend.context<Context>()) {
    const bool is_large = flops_of(problem) >= kLeastFlops;
    if (is_large) {
      const std::optional<std::string> known = context_->search().find_known(to_text(problem));
      if (known && find_known(*known)) return;
    }
    // Small work does not pay for an engine that is compiled first, as those of several operations often are.
    if (has_epilogue(problem) && is_large) add_ways(Fusion::kWhole, kMostFused);
    add_ways(Fusion::kSums, is_large ? kMostPlain : 1);
    if (has_epilogue(problem) && ways_.empty()) add_ways(Fusion::kWhole, 1);
    if (is_large && ways_.size() > 1) keep_fastest();
    if (ways_.empty()) fail("{} has no engine for {}{}", version_text(), to_text(problem), why_not_);
    ways_.erase(ways_.begin() + 1, ways_.end());
  }

  [[nodiscard]] std::size_t workspace_bytes() const { return ways_.front().plan.workspace_bytes(); }
  [[nodiscard]] std::string implementation() const {
    const bool adds_kernel = ways_.front().fusion == Fusion::kSums && has_epilogue(problem_);
    return fmt::format("{} {}{}{}", version_text(), ways_.front().name, adds_kernel ? " + cuda" : "",
                       is_measured_ ? ", fastest as measured" : "");
  }

  void run(void* stream, const ConvolutionOperands& operands, void* workspace) const {
    run(ways_.front(), stream, operands, workspace);
  }

 private:
  using Engines = std::vector<EngineConfig>;

  /// The faithful engines that the heuristics propose, each once.
  Engines list(const ConvolutionGraph& graph) const {
    Engines engines;
    const auto add = [&](cudnnBackendHeurMode_t mode) {
      for (EngineConfig& engine : list_engines(graph.get(), mode, kListed))
        if (is_faithful(engine, problem_) && std::ranges::count(engines, engine.name, &EngineConfig::name) == 0)
          engines.push_back(std::move(engine));
    };
    add(CUDNN_HEUR_MODE_A);
    add(CUDNN_HEUR_MODE_B);
    if (engines.empty()) add(CUDNN_HEUR_MODE_FALLBACK);
    return engines;
  }

  /// Calls use(engine) for the engines of one graph until it returns false; none where the library takes no such graph.
  template <class Use>
  void for_each_engine(Fusion fusion, const Use& use) {
    try {
      const ConvolutionGraph graph(problem_, fusion, *context_);
      for (const EngineConfig& engine : list(graph))
        if (!use(engine)) return;
    } catch (const Error& error) {
      why_not_ = fmt::format(": {}", error.what());
    }
  }

  [[nodiscard]] static std::string name_of_way(const EngineConfig& engine, Fusion fusion) {
    return engine.name + (fusion == Fusion::kWhole ? " fused" : "");
  }

  bool add_way(const EngineConfig& engine, Fusion fusion) {
    std::optional<Plan> plan = Plan::make(context_, engine);
    if (plan) ways_.push_back({*std::move(plan), name_of_way(engine, fusion), fusion});
    return plan.has_value();
  }

  void add_ways(Fusion fusion, std::size_t most) {
    std::size_t added = 0;
    for_each_engine(fusion, [&](const EngineConfig& engine) {
      if (add_way(engine, fusion)) ++added;
      return added < most;
    });
  }

  /// Whether the engine that was fastest before is there again.
  bool find_known(const std::string& name) {
    const Fusion fusion = name.ends_with(" fused") ? Fusion::kWhole : Fusion::kSums;
    for_each_engine(fusion, [&](const EngineConfig& engine) {
      return name_of_way(engine, fusion) != name || !add_way(engine, fusion);
    });
    is_measured_ = !ways_.empty();
    return !ways_.empty();
  }

  void keep_fastest() {
    const auto bytes = [&](const Shape& shape) {
      return static_cast<std::size_t>(shape.numel()) * size_of(problem_.dtype);
    };
    const DType of_bias = problem_.bias.value_or(problem_.dtype);
    const cuda::Work work{
        .text = to_text(problem_),
        .operands = {{.dtype = problem_.dtype, .bytes = bytes(problem_.x)},
                     {.dtype = problem_.dtype, .bytes = bytes(problem_.weight)},
                     {.dtype = of_bias, .bytes = static_cast<std::size_t>(problem_.y[1]) * size_of(of_bias)},
                     {.dtype = problem_.dtype, .bytes = problem_.has_residual ? bytes(problem_.y) : 0},
                     {.dtype = problem_.dtype, .bytes = bytes(problem_.y), .is_result = true}}};
    std::vector<cuda::Candidate> candidates;
    for (const Way& way : ways_) candidates.push_back({way.name, way.plan.workspace_bytes()});
    const std::optional<cuda::Choice> choice = context_->search().find_fastest(
        work, candidates, [&](std::size_t index, void* stream, std::span<void* const> operands, void* workspace) {
          run(ways_[index], stream,
              {.x = operands[0],
               .weight = operands[1],
               .bias = problem_.bias ? operands[2] : nullptr,
               .residual = problem_.has_residual ? operands[3] : nullptr,
               .y = operands[4]},
              workspace);
        });
    is_measured_ = choice && choice->is_measured;
    Way fastest = std::move(ways_[choice ? choice->index : 0]);
    ways_.clear();
    if (choice) ways_.push_back(std::move(fastest));
  }

  void run(const Way& way, void* stream, const ConvolutionOperands& operands, void* workspace) const {
    std::array<Bound, 5> bound{{{kConvolved, operands.x}, {kFilter, operands.weight}, {kMade, operands.y}}};
    std::size_t count = 3;
    const bool is_whole = way.fusion == Fusion::kWhole;
    if (is_whole && problem_.bias) bound[count++] = {kAddedBias, operands.bias};
    if (is_whole && problem_.has_residual) bound[count++] = {kAddedResidual, operands.residual};
    for (std::size_t i = 0; i < count; ++i)
      if (reinterpret_cast<std::uintptr_t>(bound[i].address) % kAlignment != 0)
        fail("a convolution by cuDNN takes operands at multiples of {} bytes, and one lies elsewhere", kAlignment);
    way.plan.run(stream, std::span(bound).first(count), workspace);
    if (!is_whole && has_epilogue(problem_))
      cuda::launch_convolution_epilogue(stream, epilogue_, operands.bias, operands.residual, operands.y);
  }

  ConvolutionProblem problem_;
  cuda::ConvolutionEpilogue epilogue_;
  std::shared_ptr<Context> context_;
  std::vector<Way> ways_;     // once made, one
  bool is_measured_ = false;  // here or before
  std::string why_not_;
};

Convolution::Convolution(const ConvolutionProblem& problem, Backend& backend)
    : impl_(std::make_unique<Impl>(problem, backend)) {}
Convolution::~Convolution() = default;

std::size_t Convolution::workspace_bytes() const noexcept { return impl_->workspace_bytes(); }
std::string Convolution::implementation() const { return impl_->implementation(); }
void Convolution::run(void* stream, const ConvolutionOperands& operands, void* workspace) const {
  impl_->run(stream, operands, workspace);
}

}  // namespace headroom::cudnn
