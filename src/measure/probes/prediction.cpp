#include "measure/probes/prediction.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

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

class MeasuredClock final : public LaunchClock {
 public:
  MeasuredClock(Backend& backend, const Protocol& protocol, double load_seconds)
      : backend_(backend), rates_(backend, protocol), alone_(backend, protocol) {
    // The widest arithmetic that every device has.
    const Yardstick& load = rates_.gemm("f32");
    for (const double end_ms = steady_clock_ms() + 1000 * load_seconds; steady_clock_ms() < end_ms;) {
      load.submit();
      load.stream->synchronize();
    }
  }

  double cost_ms(const Step& launch) override {
    const Yardstick& copy = rates_.copy(2 * MachineRates::kLargestCopy);
    if (launch.kernel == nullptr || launch.cost.unit != ComputeUnit::kMatrix)
      return longer_of(launch.cost.bytes, copy, 0, nullptr).ms();
    const Yardstick& gemm = rates_.gemm(launch.kernel->compute_name(launch.spec));
    return longer_of(launch.cost.bytes, copy, launch.cost.flops, &gemm).ms();
  }
  double alone_ms(const Step& launch) override {
    if (launch.kernel == nullptr) return cost_ms(launch);
    try {
      const std::vector<double>& times = alone_.times_ms(launch.spec);
      // Other work on a CPU only ever lengthens a launch. What it takes of a step is in the step's measured time.
      return backend_.properties().target.device->has_launches ? median(times) : std::ranges::min(times);
    } catch (const OutOfMemory&) {
      throw;
    } catch (const Error&) {
      return cost_ms(launch);
    }
  }
  double submit_ms() override {
    if (!backend_.properties().target.device->has_launches) return 0;
    if (submit_ms_ == 0) {
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
  Backend& backend_;
  MachineRates rates_;
  AloneTimes alone_;
  double submit_ms_ = 0;
};

/// Launches of one key run at one rate: those of a kernel in one arithmetic, and of a fused op with the same body.
std::string rate_key(const Step& launch) {
  std::string key(launch.kernel->name());
  key += ' ';
  key += launch.kernel->compute_name(launch.spec);
  if (launch.op == Op::kFused)
    for (const Node& node : body_of(launch.spec.attributes).nodes()) {
      key += ' ';
      key += name_of(node.op);
    }
  return key;
}

bool are_alike(const Step& a, const Step& b) { return a.kernel == b.kernel && a.spec == b.spec; }

struct Distinct {
  const Step* launch;
  int count;
};

/// The launches of a step without repetitions.
std::vector<Distinct> distinct_launches(const Program& program) {
  std::vector<Distinct> all;
  for (const int i : launches_of_step(program)) {
    const Step& launch = program.steps[static_cast<std::size_t>(i)];
    const auto known = std::ranges::find_if(all, [&](const Distinct& one) { return are_alike(*one.launch, launch); });
    if (known == all.end())
      all.push_back({&launch, 1});
    else
      ++known->count;
  }
  return all;
}

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

void StepPredictor::learn(std::span<const Program* const> programs) {
  for (const Program* const program : programs)
    for (const Distinct& one : distinct_launches(*program)) {
      if (one.launch->kernel == nullptr) continue;
      std::vector<Step>& known = kernels_[rate_key(*one.launch)].launches;
      if (std::ranges::none_of(known, [&](const Step& step) { return are_alike(step, *one.launch); }))
        known.push_back({.label = {},
                         .op = one.launch->op,
                         .kernel = one.launch->kernel,
                         .spec = one.launch->spec,
                         .cost = one.launch->cost,
                         .inputs = {},
                         .outputs = {}});
    }
  double off_ms = 0, checked_ms = 0;
  for (auto& [key, kernel] : kernels_) {
    std::ranges::sort(kernel.launches, {}, [&](const Step& launch) { return clock_.cost_ms(launch); });
    const auto times = [&](const Step& launch) { return std::pair{clock_.cost_ms(launch), clock_.alone_ms(launch)}; };
    kernel.rate = fit_rate(times(kernel.launches.front()), times(kernel.launches.back()));
    if (kernel.launches.size() < 3) continue;
    const auto [cost, time] = times(kernel.launches[kernel.launches.size() / 2]);
    off_ms += std::abs(kernel.rate.ms(cost) - time);
    checked_ms += time;
  }
  rate_error_ = checked_ms == 0 ? kUncheckedError : std::max(kErrorOfFloor, off_ms / checked_ms);
}

double StepPredictor::launch_error(LaunchTiming timing) const {
  return timing == LaunchTiming::kEach ? kErrorOfFloor : rate_error_;
}

double StepPredictor::launch_ms(const Step& launch, LaunchTiming timing) {
  if (launch.kernel == nullptr) return clock_.cost_ms(launch);
  if (timing == LaunchTiming::kEach) return clock_.alone_ms(launch);
  const auto known = kernels_.find(rate_key(launch));
  HR_CHECK(known != kernels_.end());
  return known->second.rate.ms(clock_.cost_ms(launch));
}

double StepPredictor::step_ms(const Program& program, LaunchTiming timing) {
  double device_ms = 0;
  int launches = 0;
  for (const Distinct& one : distinct_launches(program)) {
    device_ms += one.count * launch_ms(*one.launch, timing);
    launches += one.count;
  }
  return program.has_graph ? device_ms : std::max(device_ms, launches * clock_.submit_ms());
}

PredictedStep StepPredictor::predict(const Program& measured, const MeasuredStep& time, const Program& other,
                                     LaunchTiming timing) {
  const double from_ms = step_ms(measured, timing), to_ms = step_ms(other, timing);
  double common_ms = 0;
  const std::vector<Distinct> from = distinct_launches(measured);
  for (const Distinct& one : distinct_launches(other)) {
    const auto same =
        std::ranges::find_if(from, [&](const Distinct& known) { return are_alike(*known.launch, *one.launch); });
    if (same != from.end()) common_ms += std::min(same->count, one.count) * launch_ms(*one.launch, timing);
  }
  PredictedStep predicted{.ms = time.ms * to_ms / from_ms, .factor = from_ms / to_ms};
  const double changed = std::clamp(1 - common_ms / std::max(from_ms, to_ms), 0.0, 1.0);
  const double unexplained = std::min(1.0, std::abs(1 - from_ms / time.ms));
  predicted.error = std::hypot(launch_error(timing) * changed, unexplained * std::abs(1 - to_ms / from_ms), time.error);
  return predicted;
}

}  // namespace headroom
