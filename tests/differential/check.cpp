#include "differential/check.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "differential/random_data.hpp"
#include "io/checkpoint.hpp"
#include "io/safetensors.hpp"
#include "ir/text/text.hpp"
#include "plan/choose.hpp"
#include "plan/weight_key.hpp"
#include "run/session/session.hpp"
#include "run/weights/weight_store.hpp"
#include "testing/imaginary_device.hpp"

namespace headroom::differential {
namespace {

/// A library searches a plan for each geometry, which takes seconds on a GPU.
constexpr std::size_t kMostAttentionGeometries = 40;
/// The cache of the core that tiles are sized for: small, so that small graphs are tiled.
constexpr std::size_t kCoreCacheBytes = std::size_t{512} << 10U;
constexpr std::uint64_t kRuns = 2;
constexpr std::int64_t kLargeElements = 4096;

/// A message that names the first wrong element.
std::optional<std::string> compare_element(std::string_view what, const std::string& name, std::size_t i,
                                           double expected, double actual, double bound) {
  if (!std::isfinite(bound) || std::isnan(expected)) return std::nullopt;  // nothing is known of it
  if (actual == expected || std::fabs(actual - expected) <= bound) return std::nullopt;
  return fmt::format("{} {}: element {} is {:.9g}, expected {:.9g} +- {:.3g}", what, name, i, actual, expected, bound);
}

double number_at(const OracleTensor& tensor, std::size_t i) {
  return is_float(tensor.type.dtype) ? tensor.reals[i] : static_cast<double>(tensor.integers[i]);
}

/// Compares elements that are known without special values. With special values they must be NaN, infinite or finite
/// exactly where that is expected.
std::optional<std::string> compare_special(const NamedBounds& without, const NamedBounds& expected,
                                           const NamedBounds& actual, std::string_view what) {
  for (const auto& [name, wanted] : expected) {
    const Bounded &known = without.at(name), &got = actual.at(name);
    for (std::size_t i = 0; i < wanted.error.size(); ++i) {
      const double number = number_at(wanted.value, i), found = number_at(got.value, i);
      if (!std::isfinite(known.error[i]) || !std::isfinite(number_at(known.value, i))) continue;
      if (std::isfinite(number)) {
        if (auto wrong = compare_element(what, name, i, number, found, wanted.error[i] + got.error[i])) return wrong;
      } else if (std::isinf(number) && std::isinf(found) && wanted.error[i] > 0) {
        continue;  // the sign of what multiplies it is open
      } else if (std::isnan(number) ? !std::isnan(found) : found != number) {
        return fmt::format("{} {}: element {} is {}, expected {}", what, name, i, found, number);
      }
    }
  }
  return std::nullopt;
}

BoundedResult results_of(const Session& session, const Graph& graph) {
  BoundedResult results;
  for (const Output& output : graph.outputs())
    results.outputs[output.name] = exactly(session.output(output.name), graph.type(output.value));
  for (const ValueId state : graph.values_of(ValueKind::kState))
    results.states[graph.value(state).name] = exactly(session.state(graph.value(state).name), graph.type(state));
  return results;
}

/// Whether it is open where NaN and infinities go. Kernels may multiply by 0 elements that the interpreter leaves out:
/// masked keys, padding under a filter, and oneDNN's neighbors of a pixel with an odd number of channels. No integer is
/// a NaN or infinite. kernels_tests check the special values of kernels one by one.
bool leaves_special_values_open(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [&](const Node& node) {
    if (node.op == Op::kCast && is_float(graph.type(node.inputs[0]).dtype) &&
        !is_float(graph.type(node.results[0]).dtype))
      return true;
    if (node.op == Op::kAttention) return node.attributes[attr::kCausal] || node.inputs.size() > 3;
    return node.op == Op::kConv2d || node.op == Op::kConvTranspose2d || node.op == Op::kConv2dShortcut;
  });
}

bool is_large(const Graph& graph) {
  return std::ranges::any_of(
      graph.nodes(), [&](const Node& node) { return graph.type(node.results[0]).shape.numel() > kLargeElements; });
}

bool runs_on(const PassSet& set, DeviceKind device) { return set.target.device == device; }

/// Whether the passes would make the same changes on `target` as on the more capable target that they ran for.
bool has_what_is_needed(const PassSet& set, const Target& target) {
  return std::ranges::all_of(pipeline(), [&](const Pass& pass) {
    const bool runs = std::ranges::find(set.passes, pass.name) != set.passes.end();
    return !runs || !pass.needs || obstacle_to(*pass.needs, target).empty();
  });
}

/// The program that folds the weights when they are loaded.
Program plan_folding(const Program& program) {
  const std::vector<int> producers = find_producers(program.graph);
  std::vector<ValueId> made;
  for (const WeightUse& use : program.weights)
    if (producers[index_of(use.value)] >= 0 && std::ranges::find(made, use.value) == made.end())
      made.push_back(use.value);
  return plan(weight_graph(program.graph, made), program.target, {.arena = true, .folds_weights = false});
}

Covers covers_of(const PassSet& set) { return set.is_exact ? Covers::kReals : Covers::kUnrounded; }

}  // namespace

/// The checks already made on a rewritten graph, shared by pass sets with the same result.
struct Checker::Rewritten {
  std::set<Covers> compared = {};                                            // with the original graph
  std::map<std::string_view, std::uint64_t, std::less<>> runs_of_plan = {};  // the number of runs that agreed
};

/// State shared by the setups of one graph.
struct Checker::Work {
  const Graph& graph;
  const CheckOptions& options;
  // Without rewriting; otherwise no plan is made, because it is unknown whether the graph can run.
  bool may_be_planned;
  bool is_runnable = true;  // by kernels of the device, without rewriting
  bool is_large = false;    // passes for other devices then alternate between graphs
  NamedTensors params = {};
  std::vector<NamedTensors> inputs = {};                // by run
  std::map<Special, NamedTensors> special_inputs = {};  // empty if special values are skipped for this graph
  NamedTensors states = {};
  BoundedInterpreter oracle = {};
  std::unique_ptr<Checkpoint> checkpoint = {};
  std::map<int, std::unique_ptr<WeightStore>> weights = {};  // by threads
  std::map<std::string, Rewritten> rewritten = {};           // by text
};

Checker::Checker(DeviceKind device) : device_(device), sets_(all_pass_sets(device)) {
  std::string pattern = (std::filesystem::temp_directory_path() / "headroom-differential-XXXXXX").string();
  HR_CHECK(::mkdtemp(pattern.data()) != nullptr);
  folder_ = pattern;
  if (device == kImaginary) (void)place(1);  // which lists its kernels
  for (const Pass& pass : pipeline()) tally_.fired[std::string(pass.name)] = 0;
  for (const Kernel* kernel : kernels_of(device)) tally_.chosen[std::string(kernel->name())] = 0;
  write_file_atomically(folder_ / "config.json", "{}");
}

Checker::~Checker() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

const Checker::Place& Checker::place(int threads) {
  Place& place = places_[threads];
  if (place.backend == nullptr) {
    place.backend = device_ == kImaginary ? make_imaginary_backend(threads) : make_backend(device_, threads);
    place.target = place.backend->properties().target;
    place.target.core_cache_bytes = kCoreCacheBytes;
  }
  return place;
}

std::optional<std::string> Checker::compare(const NamedBounds& expected, const NamedBounds& actual,
                                            std::string_view what) {
  for (const auto& [name, wanted] : expected) {
    const auto found = actual.find(name);
    if (found == actual.end()) return fmt::format("{} {} is gone", what, name);
    const Bounded& got = found->second;
    double largest = 0;
    for (std::size_t i = 0; i < wanted.error.size(); ++i)
      if (const double size = std::fabs(number_at(wanted.value, i)); std::isfinite(size))
        largest = std::max(largest, size);
    for (std::size_t i = 0; i < wanted.error.size(); ++i) {
      const double bound = wanted.error[i] + got.error[i];
      if (auto wrong = compare_element(what, name, i, number_at(wanted.value, i), number_at(got.value, i), bound))
        return wrong;
      ++tally_.elements;
      tally_.sharp += bound <= largest / 10 ? 1 : 0;
    }
  }
  return std::nullopt;
}

std::optional<std::string> Checker::check_passes(Work& work, Covers covers, const Graph& rewritten) {
  const BoundedResult original = work.oracle.run(work.graph, work.inputs[0], work.params, work.states, covers);
  const BoundedResult result = work.oracle.run(rewritten, work.inputs[0], work.params, work.states, covers);
  if (auto wrong = compare(original.outputs, result.outputs, "output")) return wrong;
  if (auto wrong = compare(original.states, result.states, "state")) return wrong;
  // Padding channels turn infinities into NaN; passes that lower precision may or may not add such channels.
  const auto nan = work.special_inputs.find(Special::kNaN);
  if (nan == work.special_inputs.end() || covers != Covers::kReals) return std::nullopt;
  const BoundedResult expected = work.oracle.run(work.graph, nan->second, work.params, work.states, covers);
  const BoundedResult actual = work.oracle.run(rewritten, nan->second, work.params, work.states, covers);
  if (auto wrong = compare_special(original.outputs, expected.outputs, actual.outputs, "with NaN, output"))
    return wrong;
  return compare_special(original.states, expected.states, actual.states, "with NaN, state");
}

std::optional<std::string> Checker::check_special_values(Work& work, const Graph& graph, Session& session,
                                                         const NamedTensors& states) {
  if (leaves_special_values_open(graph)) return std::nullopt;
  const Covers kernels = device_ == DeviceKind::kCuda ? Covers::kCudaKernels : Covers::kKernels;
  const BoundedResult without = work.oracle.run(graph, work.inputs[0], work.params, states, kernels);
  for (const auto& [special, inputs] : work.special_inputs) {
    for (const auto& [name, tensor] : states) session.set_state(name, tensor);
    for (const auto& [name, tensor] : inputs) session.set_input(name, tensor);
    session.run();
    const BoundedResult expected = work.oracle.run(graph, inputs, work.params, states, kernels);
    const BoundedResult actual = results_of(session, graph);
    const std::string with = fmt::format("with {}, ", name_of(special));
    if (auto wrong = compare_special(without.outputs, expected.outputs, actual.outputs, with + "output")) return wrong;
    if (auto wrong = compare_special(without.states, expected.states, actual.states, with + "state")) return wrong;
  }
  return std::nullopt;
}

bool Checker::may_plan(const Graph& graph) {
  if (device_ != DeviceKind::kCuda) return true;
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::kAttention) continue;
    std::string geometry = fmt::format("{}", graph.type(node.results[0]).dtype);
    for (const ValueId input : node.inputs) geometry += graph.type(input).shape.to_string();
    if (!attention_geometries_.contains(geometry) && attention_geometries_.size() == kMostAttentionGeometries)
      return false;
    attention_geometries_.insert(std::move(geometry));
  }
  return true;
}

std::optional<std::string> Checker::check_plan(Work& work, const Graph& graph, const PlanSetup& setup,
                                               std::uint64_t runs, bool is_original) {
  // Thread teams cost more than most graphs of this size.
  const int threads = setup.options.tile && work.is_large ? 2 : 1;
  const Place& place = this->place(threads);
  auto& weights = work.weights[threads];
  if (weights == nullptr) weights = std::make_unique<WeightStore>(*place.backend, *work.checkpoint);
  std::shared_ptr<const Program> program;
  std::optional<Session> made;
  try {
    program = std::make_shared<Program>(plan(graph, place.target, setup.options));
    made.emplace(program, *weights, *place.backend);  // its plans determine how weights are folded
  } catch (const NoKernel& error) {
    // A graph that no kernel runs is acceptable if it was generated so, but not if a pass made it so.
    if (work.is_runnable && !is_original) throw;
    work.is_runnable = false;
    if (is_original) {
      ++tally_.without_kernel;
      tally_.last_without_kernel = error.what();
    }
    return std::nullopt;
  }
  Session& session = *made;
  ++tally_.programs;
  tally_.tiled += program->tiled.empty() ? 0 : 1;
  count_kernels(*program);
  if (setup.options.arena && !setup.options.tile) count_kernels(plan_folding(*program));

  const Covers kernels = device_ == DeviceKind::kCuda ? Covers::kCudaKernels : Covers::kKernels;
  NamedTensors states = work.states;
  for (const auto& [name, tensor] : states) session.set_state(name, tensor);
  for (std::uint64_t run = 0; run < runs; ++run) {
    for (const auto& [name, tensor] : work.inputs[run]) session.set_input(name, tensor);
    session.run();
    if (const std::optional<ReplayObstacle>& obstacle = session.obstacle_to_one_replay())
      return fmt::format("run {}: not replayed as a whole: {} {}", run, obstacle->reason, obstacle->path);
    const BoundedResult expected = work.oracle.run(graph, work.inputs[run], work.params, states, kernels);
    for (auto& [name, tensor] : states) tensor = session.state(name);
    if (auto wrong = compare_session(session, graph, expected)) return fmt::format("run {}, {}", run, *wrong);
  }
  return check_special_values(work, graph, session, states);
}

void Checker::count_kernels(const Program& program) {
  for (const Step& step : program.steps)
    if (step.kernel != nullptr) ++tally_.chosen[std::string(step.kernel->name())];
}

std::optional<std::string> Checker::compare_session(const Session& session, const Graph& graph,
                                                    const BoundedResult& expected) {
  const BoundedResult actual = results_of(session, graph);
  if (auto wrong = compare(expected.outputs, actual.outputs, "output")) return wrong;
  return compare(expected.states, actual.states, "state");
}

std::optional<Failure> Checker::check_set(Work& work, const PassSet& set, std::size_t index) {
  const auto failure = [&](std::string_view plan, std::string message, bool threw = false) {
    return Failure{.passes = set.name, .plan = std::string(plan), .message = std::move(message), .threw = threw};
  };
  const bool is_planned = runs_on(set, device_) && has_what_is_needed(set, place(1).target);
  if (!is_planned && work.is_large && !work.options.only && (work.options.seed + index) % 8 != 0) return std::nullopt;
  Graph rewritten = work.graph;
  Rewritten* known = nullptr;
  int rewrites = 0;
  try {
    for (const PassRecord& record : run_passes(set, rewritten).passes) {
      rewrites += record.rewrites;
      tally_.fired[std::string(record.name)] += record.rewrites > 0 ? 1 : 0;
    }
    if (rewrites == 0 && index > 0) return std::nullopt;  // unchanged
    known = &work.rewritten[print(rewritten)];
    if (rewrites > 0 && known->compared.insert(covers_of(set)).second)
      if (auto wrong = check_passes(work, covers_of(set), rewritten)) return failure("", *wrong);
  } catch (const std::exception& error) {
    return failure("", error.what(), true);
  }
  if (!is_planned || !work.may_be_planned || !may_plan(rewritten)) return std::nullopt;
  const std::span<const PlanSetup> plans = plan_setups(device_);
  for (std::size_t p = 0; p < plans.size(); ++p) {
    // A single pass changes little of a graph that was planned already, so single passes alternate between plans.
    const bool alternates = set.passes.size() == 1 && !work.options.all_plans;
    const std::uint64_t runs = alternates ? 1 : kRuns;
    if (alternates && p != (work.options.seed + index) % plans.size()) continue;
    if (work.options.only && work.options.only->plan != plans[p].name) continue;
    std::uint64_t& agreed = known->runs_of_plan[plans[p].name];
    if (agreed >= runs) continue;
    try {
      if (auto wrong = check_plan(work, rewritten, plans[p], runs, index == 0)) return failure(plans[p].name, *wrong);
    } catch (const std::exception& error) {
      return failure(plans[p].name, error.what(), true);
    }
    agreed = runs;
  }
  return std::nullopt;
}

std::optional<Failure> Checker::check(const Graph& graph, const CheckOptions& options) {
  Work work{.graph = graph,
            .options = options,
            .may_be_planned = may_plan(graph),
            .is_large = is_large(graph),
            .params = random_params(graph, options.seed)};
  for (std::uint64_t run = 0; run < kRuns; ++run) work.inputs.push_back(random_inputs(graph, options.seed, run));
  work.states = random_states(graph, options.seed);
  if (options.seed % options.special_period == 0)
    for (const Special special : kSpecials)
      if (NamedTensors inputs = plant(graph, work.inputs[0], special, options.seed); !inputs.empty())
        work.special_inputs.emplace(special, std::move(inputs));
  write_safetensors(folder_ / "model.safetensors", {work.params.begin(), work.params.end()});
  work.checkpoint = std::make_unique<Checkpoint>(Checkpoint::open(folder_));
  for (std::size_t i = 0; i < sets_.size(); ++i) {
    if (options.only && options.only->passes != sets_[i].name) continue;
    const bool alternates = !options.only && (sets_[i].passes.size() == 1 || !runs_on(sets_[i], device_));
    if (alternates && (options.seed / options.period + i) % options.period != 0) continue;
    if (auto failure = check_set(work, sets_[i], i)) return failure;
  }
  return std::nullopt;
}

}  // namespace headroom::differential
