#include "measure/probes/prediction.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>

#include "base/error.hpp"
#include "base/out_of_memory.hpp"
#include "ir/expand.hpp"
#include "measure/probes/alone_times.hpp"
#include "measure/probes/device_times.hpp"
#include "measure/probes/floor.hpp"
#include "measure/protocol/submissions.hpp"
#include "measure/statistics/statistics.hpp"

namespace headroom {
namespace {

/// The error of a rate that no third launch checks.
constexpr double kUncheckedError = 0.25;
/// The launches of a program that together take this share of its time are not timed by themselves: of hundreds, most
/// are that small.
constexpr double kShareByRates = 0.02;

class MeasuredClock final : public LaunchClock {
 public:
  MeasuredClock(Backend& backend, const Protocol& protocol, double load_seconds)
      : backend_(backend),
        rates_(backend, protocol),
        alone_(backend, protocol, NewWork::kTakeOver),
        load_seconds_(load_seconds) {}

  double cost_ms(const Step& launch) override {
    work_for_load();
    const Yardstick& copy = rates_.copy(2 * MachineRates::kLargestCopy);
    if (launch.kernel == nullptr || launch.cost.unit != ComputeUnit::kMatrix)
      return longer_of(launch.cost.bytes, copy, 0, nullptr).ms();
    const Yardstick& gemm = rates_.gemm(launch.kernel->compute_name(launch.spec));
    return longer_of(launch.cost.bytes, copy, launch.cost.flops, &gemm).ms();
  }
  double alone_ms(const Step& launch) override {
    work_for_load();
    if (launch.kernel == nullptr || std::ranges::find(not_alone_, launch.spec) != not_alone_.end())
      return cost_ms(launch);
    try {
      const std::vector<double>& times = alone_.times_ms(launch.spec);
      // Other work on a CPU only ever lengthens a launch. What it takes of a step is in the step's measured time.
      return backend_.properties().target.device->has_launches ? median(times) : std::ranges::min(times);
    } catch (const OutOfMemory&) {
      throw;
    } catch (const Error&) {
      not_alone_.push_back(launch.spec);
      return cost_ms(launch);
    }
  }
  double submit_ms() override {
    if (!backend_.properties().target.device->has_launches) return 0;
    if (submit_ms_ == 0) {
      work_for_load();
      constexpr int kLaunches = 200;
      constexpr std::size_t kBytes = 4096;
      CopyRun copy(backend_);
      copy.reserve(kBytes);
      copy.submit(kBytes);
      copy.stream().synchronize();
      const double start_ms = steady_clock_ms();
      for (int i = 0; i < kLaunches; ++i) copy.submit(kBytes);
      copy.stream().synchronize();
      submit_ms_ = (steady_clock_ms() - start_ms) / kLaunches;
    }
    return submit_ms_;
  }

 private:
  /// Before the first measurement, not when the object is made: compiling programs in between would let a GPU cool.
  void work_for_load() {
    if (load_seconds_ <= 0) return;
    // The widest arithmetic that every device has.
    const Yardstick& load = rates_.gemm("f32");
    for (const double end_ms = steady_clock_ms() + 1000 * load_seconds_; steady_clock_ms() < end_ms;) {
      load.submit();
      load.stream->synchronize();
    }
    load_seconds_ = 0;
  }

  Backend& backend_;
  MachineRates rates_;
  AloneTimes alone_;
  double load_seconds_;            // 0 after it
  std::vector<OpSpec> not_alone_;  // no kernel runs them by themselves
  double submit_ms_ = 0;
};

/// Launches of one key run at one rate: those of a kernel in one arithmetic and one layout of images, and of a fused op
/// with the same body.
std::string rate_key(const Step& launch) {
  if (launch.kernel == nullptr) return "copy";
  std::string key(launch.kernel->name());
  key += ' ';
  key += launch.kernel->compute_name(launch.spec);
  if (!launch.spec.inputs.empty() && launch.spec.inputs[0].layout == Layout::kChannelsLast) key += " channels-last";
  if (launch.op == Op::kFused)
    for (const Node& node : body_of(launch.spec.attributes).nodes()) {
      key += ' ';
      key += name_of(node.op);
    }
  return key;
}

bool are_alike(const Step& a, const Step& b) { return a.kernel == b.kernel && a.spec == b.spec; }

struct Distinct {
  const Step* launch = nullptr;
  int count = 0;
  double in_step_ms = 0;  ///< of all of them, if the times are known
};

/// The launches of a step without repetitions. `launch_ms` as MeasuredStep::launch_ms.
std::vector<Distinct> distinct_launches(const Program& program, std::span<const double> launch_ms = {}) {
  std::vector<Distinct> all;
  std::map<std::tuple<const Kernel*, double, double>, std::vector<std::size_t>> with_cost;  // few specs to compare
  for (const int i : launches_of_step(program)) {
    const auto at = static_cast<std::size_t>(i);
    const Step& launch = program.steps[at];
    std::vector<std::size_t>& similar = with_cost[{launch.kernel, launch.cost.flops, launch.cost.bytes}];
    auto known = std::ranges::find_if(similar, [&](std::size_t k) { return are_alike(*all[k].launch, launch); });
    if (known == similar.end()) {
      known = similar.insert(similar.end(), all.size());
      all.push_back({.launch = &launch});
    }
    Distinct& one = all[*known];
    ++one.count;
    if (!launch_ms.empty()) one.in_step_ms += launch_ms[at];
  }
  return all;
}

bool is_contraction(const Step& launch) { return launch.cost.unit == ComputeUnit::kMatrix; }

/// How much longer launches take in a step than by themselves.
class InStep {
 public:
  void add(const Step& launch, double in_step_ms, double alone_ms) {
    for (Ratio* const ratio : {&by_kernel_[rate_key(launch)], &kind_of(launch), &all_}) {
      ratio->in_step_ms += in_step_ms;
      ratio->alone_ms += alone_ms;
    }
  }
  /// By the launches of the same kernel, or factor_of_kind() if there are none.
  [[nodiscard]] double factor(const Step& launch) {
    const auto known = by_kernel_.find(rate_key(launch));
    return known != by_kernel_.end() && known->second.alone_ms > 0 ? known->second.value() : factor_of_kind(launch);
  }
  /// By all contractions, or all other launches; by all if there are none.
  [[nodiscard]] double factor_of_kind(const Step& launch) {
    if (kind_of(launch).alone_ms > 0) return kind_of(launch).value();
    return all_.alone_ms > 0 ? all_.value() : 1;
  }

 private:
  struct Ratio {
    double in_step_ms = 0, alone_ms = 0;
    [[nodiscard]] double value() const { return in_step_ms / alone_ms; }
  };
  Ratio& kind_of(const Step& launch) { return is_contraction(launch) ? contractions_ : others_; }

  std::map<std::string, Ratio> by_kernel_;
  Ratio contractions_, others_, all_;
};

}  // namespace

std::unique_ptr<LaunchClock> make_launch_clock(Backend& backend, const Protocol& protocol, double load_seconds) {
  return std::make_unique<MeasuredClock>(backend, protocol, load_seconds);
}

KernelRate fit_rate(std::pair<double, double> smallest, std::pair<double, double> largest) {
  const double more_cost = largest.first - smallest.first, more_ms = largest.second - smallest.second;
  const KernelRate line{.fixed_ms = 0, .per_cost = more_cost > 0 ? more_ms / more_cost : 0};
  const double fixed_ms = smallest.second - line.per_cost * smallest.first;
  if (line.per_cost <= 0 || fixed_ms < 0) return {0, largest.first > 0 ? largest.second / largest.first : 1};
  return {fixed_ms, line.per_cost};
}

std::vector<int> launches_of_step(const Program& program) {
  const Segment* const loop = find_loop(program.root);
  const int first = loop == nullptr ? 0 : loop->first;
  const int last = loop == nullptr ? static_cast<int>(program.steps.size()) : loop->last;
  std::vector<int> launches;
  for (int i = first; i < last; ++i) launches.push_back(i);
  return launches;
}

void StepPredictor::learn(std::span<const Program* const> programs, const ProfileObserver& observer) {
  for (const Program* const program : programs)
    for (const Distinct& one : distinct_launches(*program)) {
      if (one.launch->kernel == nullptr) continue;
      std::vector<Launch>& known = kernels_[rate_key(*one.launch)].launches;
      if (std::ranges::none_of(known, [&](const Launch& launch) { return are_alike(launch.step, *one.launch); }))
        known.push_back({.step = {.label = {},
                                  .op = one.launch->op,
                                  .kernel = one.launch->kernel,
                                  .spec = one.launch->spec,
                                  .cost = one.launch->cost,
                                  .inputs = {},
                                  .outputs = {}}});
    }
  double off_ms = 0, checked_ms = 0;
  std::int64_t done = 0;
  for (auto& [key, kernel] : kernels_) {
    if (observer) observer("timing kernels", ++done, std::ssize(kernels_));
    std::ranges::sort(kernel.launches, {}, [&](const Launch& launch) { return clock_.cost_ms(launch.step); });
    const auto times = [&](const Launch& launch) {
      return std::pair{clock_.cost_ms(launch.step), clock_.alone_ms(launch.step)};
    };
    kernel.rate = fit_rate(times(kernel.launches.front()), times(kernel.launches.back()));
    if (kernel.launches.size() < 3) continue;
    const auto [cost, time] = times(kernel.launches[kernel.launches.size() / 2]);
    off_ms += std::abs(kernel.rate.ms(cost) - time);
    checked_ms += time;
  }
  rate_error_ = checked_ms == 0 ? kUncheckedError : std::max(kErrorOfFloor, off_ms / checked_ms);
  for (const Program* const program : programs) mark_large(*program);
}

void StepPredictor::mark_large(const Program& program) {
  std::vector<std::pair<double, Launch*>> all;  // with the time of all that are alike
  double left_ms = 0;
  for (const Distinct& one : distinct_launches(program)) {
    if (one.launch->kernel == nullptr) continue;
    all.emplace_back(one.count * launch_ms(*one.launch, LaunchTiming::kRates), find(*one.launch));
    left_ms += all.back().first;
  }
  std::ranges::sort(all, std::greater(), &std::pair<double, Launch*>::first);
  const double least_left_ms = kShareByRates * left_ms;
  for (const auto& [ms, launch] : all) {
    if (left_ms <= least_left_ms) return;
    launch->is_large = true;
    left_ms -= ms;
  }
}

StepPredictor::Launch* StepPredictor::find(const Step& launch) {
  const auto known = kernels_.find(rate_key(launch));
  if (known == kernels_.end()) return nullptr;
  std::vector<Launch>& all = known->second.launches;
  const auto found = std::ranges::find_if(all, [&](const Launch& one) { return are_alike(one.step, launch); });
  return found == all.end() ? nullptr : &*found;
}

double StepPredictor::launch_error(LaunchTiming timing) const {
  return timing == LaunchTiming::kEach ? kErrorOfFloor : rate_error_;
}

double StepPredictor::launch_ms(const Step& launch, LaunchTiming timing) {
  if (launch.kernel == nullptr) return clock_.cost_ms(launch);
  if (timing == LaunchTiming::kEach) {
    const Launch* const learned = find(launch);
    if (learned == nullptr || learned->is_large) return clock_.alone_ms(launch);
  }
  const auto known = kernels_.find(rate_key(launch));
  HR_CHECK(known != kernels_.end());
  return known->second.rate.ms(clock_.cost_ms(launch));
}

double StepPredictor::step_ms(const Program& program, double device_ms, double submit_ms) {
  if (program.has_graph) return device_ms;
  return std::max(device_ms, static_cast<double>(launches_of_step(program).size()) * submit_ms);
}

double StepPredictor::step_ms(const Program& program, LaunchTiming timing) {
  double device_ms = 0;
  for (const Distinct& one : distinct_launches(program)) device_ms += one.count * launch_ms(*one.launch, timing);
  return step_ms(program, device_ms, clock_.submit_ms());
}

PredictedStep StepPredictor::predict(const Program& measured, const MeasuredStep& time, const Program& other,
                                     LaunchTiming timing) {
  std::vector<Distinct> from = distinct_launches(measured, time.launch_ms);
  InStep in_step;
  for (Distinct& one : from) {
    const double alone_ms = one.count * launch_ms(*one.launch, timing);
    if (time.launch_ms.empty()) one.in_step_ms = alone_ms;
    in_step.add(*one.launch, one.in_step_ms, alone_ms);
  }
  double from_ms = 0, to_ms = 0, common_ms = 0, off_ms = 0;
  for (const Distinct& one : from) {
    from_ms += one.in_step_ms;
    off_ms +=
        std::abs(one.in_step_ms - one.count * launch_ms(*one.launch, timing) * in_step.factor_of_kind(*one.launch));
  }
  for (const Distinct& one : distinct_launches(other)) {
    const auto same =
        std::ranges::find_if(from, [&](const Distinct& known) { return are_alike(*known.launch, *one.launch); });
    if (same == from.end()) {
      to_ms += one.count * launch_ms(*one.launch, timing) * in_step.factor(*one.launch);
      continue;
    }
    const double each_ms = same->in_step_ms / same->count;
    to_ms += one.count * each_ms;
    common_ms += std::min(same->count, one.count) * each_ms;
  }
  const double error = std::hypot(launch_error(timing), off_ms / from_ms);
  const double changed = std::clamp(1 - common_ms / std::max(from_ms, to_ms), 0.0, 1.0);
  double submit_ms = clock_.submit_ms();
  constexpr double kBusy = 0.9;
  const bool host_is_limit = !measured.has_graph && !time.launch_ms.empty() && from_ms < kBusy * time.ms;
  if (submit_ms > 0 && host_is_limit) submit_ms = time.ms / static_cast<double>(launches_of_step(measured).size());
  from_ms = step_ms(measured, from_ms, submit_ms);
  to_ms = step_ms(other, to_ms, submit_ms);
  PredictedStep predicted{.ms = time.ms * to_ms / from_ms, .factor = from_ms / to_ms};
  const double unexplained = std::min(1.0, std::abs(1 - from_ms / time.ms));
  predicted.error = std::hypot(error * changed, unexplained * std::abs(1 - to_ms / from_ms), time.error);
  return predicted;
}

}  // namespace headroom
