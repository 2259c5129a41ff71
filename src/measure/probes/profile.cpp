#include "measure/probes/profile.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "backends/device.hpp"
#include "base/tensors/divide_up.hpp"
#include "measure/probes/alone_times.hpp"
#include "measure/probes/conditions.hpp"
#include "measure/probes/device_times.hpp"
#include "measure/probes/floor.hpp"
#include "measure/protocol/op_run.hpp"
#include "measure/protocol/submissions.hpp"

namespace headroom {
namespace {

/// The least times of a program's launches; each entry is one measurement of all of them.
struct Floors {
  explicit Floors(std::size_t launches) : alone_ms(launches), floor_ms(launches), floor_of(launches) {}

  /// Without `alone` the launch counts with its floor.
  void measure(const Step& launch, std::size_t at, AloneTimes* alone, MachineRates& rates) {
    const Floor floor = headroom::floor_of(launch, rates);
    const bool is_contraction = launch.kernel != nullptr && launch.cost.unit == ComputeUnit::kMatrix;
    alone_ms[at].push_back(alone != nullptr && is_contraction ? alone->ms(bare(launch.spec)) : floor.ms());
    floor_ms[at].push_back(floor.ms());
    floor_of[at] = floor.yardstick->of;
  }

  std::vector<std::vector<double>> alone_ms, floor_ms;
  std::vector<std::string> floor_of;
};

Protocol floor_protocol(const Backend& backend, const ProfileOptions& options) {
  Protocol protocol = short_protocol(backend, options.floor_seconds / options.rounds);
  protocol.trials = divide_up(protocol.trials, options.rounds);
  return protocol;
}

/// Watches for disturbances during a phase of the work; a phase counts as one trial.
class PhaseWatch {
 public:
  explicit PhaseWatch(const Backend& backend) : probe_(pci_bus_id_of(backend)), began_ms_(steady_clock_ms()) {}

  /// Ends the phase and adds its disturbance, if any, to `disturbances`.
  void end(const char* phase, std::vector<std::string>& disturbances) {
    probe_.add_trial();
    const double elapsed_ms = steady_clock_ms() - began_ms_;
    add_disturbance(phase, find_disturbance(probe_.take(), {&elapsed_ms, 1}, "phase"), disturbances);
  }

  static void add_disturbance(const char* phase, const std::string& disturbance,
                              std::vector<std::string>& disturbances) {
    if (disturbance.empty()) return;
    std::string clause = fmt::format("{}: {}", phase, disturbance);
    const auto is_known = [&](const std::string& known) { return known.starts_with(fmt::format("{}: ", phase)); };
    if (std::ranges::none_of(disturbances, is_known)) disturbances.push_back(std::move(clause));
  }

 private:
  ConditionsProbe probe_;
  double began_ms_;
};

class Profiler {
 public:
  Profiler(const ProfiledRun& run, const Backend& backend, const ProfileOptions& options,
           const ProfileObserver& observer)
      : run_(run),
        loop_(find_loop(run.session.program().root)),
        pci_bus_id_(pci_bus_id_of(backend)),
        options_(options),
        observer_(observer) {
    record_by_step(true);
  }
  ~Profiler() { record_by_step(false); }
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  [[nodiscard]] std::int64_t steps_of_run() const { return loop_ == nullptr ? 1 : loop_->trip_count; }
  [[nodiscard]] bool is_in_step(int launch) const {
    return loop_ == nullptr || (launch >= loop_->first && launch < loop_->last);
  }

  Trials time_steps(int round) {
    Trials steps;
    std::int64_t seen = 0;
    constexpr std::int64_t kWarmup = 5;
    const std::int64_t enough = kWarmup + divide_up(options_.trials, options_.rounds);
    ConditionsProbe probe(pci_bus_id_);
    while (seen < enough)
      run([&](std::int64_t, double milliseconds) {
        if (seen++ >= kWarmup) {
          steps.wall_ms.push_back(milliseconds);
          probe.add_trial();
        } else {
          probe.begin();
        }
        tell("timing steps", std::min(seen, enough), enough);
      });
    steps.warmup = kWarmup;
    steps.process = round;
    steps.conditions = probe.take();
    return steps;
  }

  void record_by_step(bool by_step) {
    run_.session.record_by_step(by_step);
    for (Session* const other : run_.others) other->record_by_step(by_step);
  }
  void observe_launches(LaunchObserver observer) {
    for (Session* const other : run_.others)
      other->observe_launches(observer ? [](int, const LaunchTime&) {} : LaunchObserver());
    run_.session.observe_launches(std::move(observer));
  }

  /// The times of each launch of the program, with a wait after each launch.
  std::vector<std::vector<double>> time_launches(std::vector<TraceSlice>& slices) {
    const Program& program = run_.session.program();
    std::vector<std::vector<double>> times(program.steps.size());
    observe_launches([&](int step, const LaunchTime& time) {
      times[static_cast<std::size_t>(step)].push_back(time.milliseconds);
      const std::int64_t start_ns =
          std::chrono::duration_cast<std::chrono::nanoseconds>(time.start.time_since_epoch()).count();
      slices.push_back(slice_of(step, "cpu", start_ns, start_ns + static_cast<std::int64_t>(time.milliseconds * 1e6)));
    });
    std::int64_t seen = 0;
    while (seen < options_.trials) {
      slices.clear();
      run([&](std::int64_t, double) {
        tell("timing launches", std::min<std::int64_t>(++seen, options_.trials), options_.trials);
      });
    }
    observe_launches({});
    return times;
  }

  /// The time of a step if the loop is one CUDA graph; nothing otherwise.
  std::optional<double> time_loop() {
    if (loop_ == nullptr) return std::nullopt;
    record_by_step(false);
    run({});
    std::vector<double> steps;
    std::int64_t seen = 0;
    while (seen < options_.trials && run_.session.replays() == 1)
      run([&](std::int64_t, double milliseconds) {
        steps.push_back(milliseconds);
        tell("timing the loop", std::min<std::int64_t>(++seen, options_.trials), options_.trials);
      });
    record_by_step(true);
    if (steps.empty()) return std::nullopt;
    return median(steps);
  }

  /// Like time_launches(), but from the device's trace; also the idle and busy times of a step.
  std::vector<std::vector<double>> trace_launches(DeviceTrace& trace, std::vector<TraceSlice>& slices,
                                                  ProfileRecord& record) {
    const Program& program = run_.session.program();
    LaunchTimes times(program);
    std::vector<std::pair<int, std::int64_t>> ends;
    observe_launches([&](int step, const LaunchTime&) { ends.emplace_back(step, trace.now_ns()); });
    std::int64_t seen = 0;
    run_traced(trace, [&](std::int64_t, double) { tell("telling launches apart", ++seen, steps_of_run()); });
    observe_launches({});
    times.learn(ends, trace.collect());
    for (int i = 0; i < 2; ++i) run({});  // until `graph` has captured everything that it can
    (void)trace.collect();
    std::vector<DeviceActivity> activities;
    for (seen = 0; seen < options_.trials; seen += steps_of_run()) {
      tell("tracing steps", seen, options_.trials);
      run_traced(trace, {});
      activities = trace.collect();
      times.add(activities);
    }
    if (!times.idle_shares().empty()) {
      record.idle_share = median(times.idle_shares());
      record.busy_ms = median(times.busy_ms());
    }
    add_slices(activities, times.steps_of_last(), slices);
    return times.launch_ms();
  }

  void tell(std::string_view phase, std::int64_t done, std::int64_t total) const {
    if (observer_) observer_(phase, done, total);
  }

  TraceSlice slice_of(int index, std::string track, std::int64_t start_ns, std::int64_t end_ns) const {
    const Step& step = run_.session.program().steps[static_cast<std::size_t>(index)];
    return {.name = fmt::format("{} {}", name_of(step.op), step.label),
            .track = std::move(track),
            .start_ns = start_ns,
            .end_ns = end_ns,
            .details = {{"kernel", std::string(step.kernel == nullptr ? "backend.copy" : step.kernel->name())},
                        {"bytes", step.cost.bytes},
                        {"flops", step.cost.flops}}};
  }

  void add_slices(const std::vector<DeviceActivity>& activities, const std::vector<int>& steps,
                  std::vector<TraceSlice>& slices) const {
    auto step = steps.begin();
    for (const DeviceActivity& activity : activities) {
      const std::string track = fmt::format("stream {}", activity.stream);
      if (activity.kind == DeviceActivity::Kind::kHostCopy) {
        slices.push_back({.name = "copy to or from the host",
                          .track = track,
                          .start_ns = activity.start_ns,
                          .end_ns = activity.end_ns,
                          .details = {}});
        continue;
      }
      slices.push_back(slice_of(*step++, track, activity.start_ns, activity.end_ns));
      slices.back().details.emplace_back("device", activity.name);
    }
  }

 private:
  /// Runs once; `on_step` is called after each step.
  void run(const IterationObserver& on_step) const {
    if (run_.prepare) run_.prepare();
    run_.run(on_step);
  }

  /// The same; the trace has the work of the program alone.
  void run_traced(DeviceTrace& trace, const IterationObserver& on_step) const {
    if (run_.prepare) run_.prepare();
    (void)trace.collect();
    run_.run(on_step);
  }

  const ProfiledRun& run_;
  const Segment* loop_;
  std::string pci_bus_id_;
  const ProfileOptions& options_;
  const ProfileObserver& observer_;
};

}  // namespace

Profile profile(const ProfiledRun& run, Backend& backend, const ProfileOptions& options,
                const ProfileObserver& observer) {
  const Program& program = run.session.program();
  Profiler profiler(run, backend, options, observer);
  Profile result;
  result.steps.push_back(profiler.time_steps(0));
  std::vector<std::vector<double>> times;
  PhaseWatch launches(backend);
  const bool has_launches = backend.properties().target.device->has_launches;
  // Nothing is traced while other GPUs work for the same request: one of two such profiles crashed.
  if (!has_launches || !run.others.empty()) {
    times = profiler.time_launches(result.slices);
  } else {
    times = profiler.trace_launches(*backend.make_trace(), result.slices, result.launches);
  }
  if (has_launches) result.launches.loop_step_ms = profiler.time_loop();  // after all tracing has ended

  launches.end("launches", result.disturbances);

  const int count = static_cast<int>(program.steps.size());
  Floors floors(program.steps.size());
  for (int round = 0; round < options.rounds; ++round) {
    if (round > 0) result.steps.push_back(profiler.time_steps(round));
    const Protocol protocol = floor_protocol(backend, options);
    PhaseWatch watch(backend);
    MachineRates rates(backend, protocol);
    AloneTimes alone(backend, protocol);
    double of_step = 0;
    for (int i = 0; i < count; ++i) {
      profiler.tell("measuring floors", round * count + i + 1, options.rounds * count);
      const auto at = static_cast<std::size_t>(i);
      floors.measure(program.steps[at], at, options.times_alone ? &alone : nullptr, rates);
      if (profiler.is_in_step(i)) of_step += floors.floor_ms[at].back();
    }
    result.floors.push_back({.wall_ms = {of_step}, .process = round});
    watch.end("floors", result.disturbances);
  }
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double time_ms = median(times[at]), alone_ms = median(floors.alone_ms[at]);
    result.launches.runs.push_back(profiler.is_in_step(i) ? profiler.steps_of_run() : 1);
    result.launches.time_ms.push_back(time_ms);
    result.launches.alone_ms.push_back(alone_ms);
    result.launches.floor_ms.push_back(median(floors.floor_ms[at]));
    result.launches.floor_of.push_back(std::move(floors.floor_of[at]));
    (profiler.is_in_step(i) ? result.step_launches_ms : result.once_ms) += time_ms;
    if (profiler.is_in_step(i)) result.step_alone_ms += alone_ms;
  }
  result.is_pass = run.is_pass;
  const std::string name = result.step_name();
  for (const Trials& round : result.steps)
    PhaseWatch::add_disturbance(name == "pass" ? "whole passes" : "whole steps",
                                find_disturbance(round.conditions, round.wall_ms, name), result.disturbances);
  return result;
}

const char* Profile::step_name() const {
  const auto is_in_loop = [](std::int64_t runs) { return runs > 1; };
  return is_pass && std::ranges::none_of(launches.runs, is_in_loop) ? "pass" : "step";
}

double Profile::step_ms() const {
  std::vector<double> all;
  for (const Trials& round : steps) all.insert(all.end(), round.wall_ms.begin(), round.wall_ms.end());
  return median(all);
}

double Profile::step_floor_ms() const {
  std::vector<double> all;
  for (const Trials& round : floors) all.push_back(round.wall_ms.front());
  return median(all);
}

double Profile::over_floor() const {
  std::vector<double> all;
  for (std::size_t round = 0; round < steps.size(); ++round)
    all.push_back(median(steps[round].wall_ms) / floors[round].wall_ms.front());
  return median(all);
}

}  // namespace headroom
