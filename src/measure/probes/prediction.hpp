#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "measure/probes/profile.hpp"
#include "measure/statistics/trials.hpp"
#include "plan/program.hpp"

/// Predicts how much faster a step of one program is than that of another, from their launches, without running them.
/// A step is one iteration of the program's loop, or a whole run if there is none.
namespace headroom {

/// How the time of a launch is found.
enum class LaunchTiming : std::uint8_t {
  kRates,  ///< from its cost: the time of a kernel is linear in it, through its smallest and its largest launch
  kEach,   ///< each distinct launch is timed by itself, but for small ones: see StepPredictor::learn()
};

/// The times that a prediction is made of. Tests give fixed figures.
class LaunchClock {
 public:
  virtual ~LaunchClock() = default;
  /// The cost in ms: bytes at the rate of a large copy, or FLOPs of a contraction at that of a bare GEMM if it is more.
  virtual double cost_ms(const Step& launch) = 0;
  /// The launch by itself; its cost if it is a copy, or no kernel runs it alone.
  virtual double alone_ms(const Step& launch) = 0;
  /// The time of the host to submit one launch; 0 where the host does the work.
  virtual double submit_ms() = 0;
};

/// Times measured on a device that has been at work for `load_seconds` before the first of them: a GPU at its power
/// limit and a CPU with all cores at work are slower than at first, and a step is long enough to be slow.
[[nodiscard]] std::unique_ptr<LaunchClock> make_launch_clock(Backend& backend, const Protocol& protocol,
                                                             double load_seconds = 2);

/// The time of one kernel's launches as a function of their costs.
struct KernelRate {
  double fixed_ms = 0;
  double per_cost = 1;
  [[nodiscard]] double ms(double cost_ms) const { return fixed_ms + per_cost * cost_ms; }
};
/// The line through two launches, (cost, time) each, the first with the smaller cost. Through the origin and the
/// second if the line would fall or begin below zero.
[[nodiscard]] KernelRate fit_rate(std::pair<double, double> smallest, std::pair<double, double> largest);

/// What is known of the step that others are compared with.
struct MeasuredStep {
  double ms = 0;
  double error = 0;  ///< relative
  /// The time of each of the program's launches within the step, by index of Program::steps; empty if unknown.
  std::vector<double> launch_ms = {};
};

/// A program instead of the measured one.
struct PredictedStep {
  double ms = 0;      ///< the measured step's, divided by `factor`
  double factor = 1;  ///< the measured step's time / this one's: over 1 if it is faster
  /// Relative error of both, one standard deviation. Three parts are added in squares: the error of launch times (also
  /// how far those of one kind differ in what the step adds to them), for the share of time in launches that only one
  /// of the two has; the share of the measured step that its launches do not explain, for the difference of the two
  /// times; and that of the measured step.
  double error = 0;
};

class StepPredictor {
 public:
  /// `clock` must outlive the object.
  explicit StepPredictor(LaunchClock& clock) : clock_(clock) {}

  /// Takes the rates of kernels from launches of these programs and of those learned before. The error of rates is
  /// that of the time of third launches, one of each kernel that has one, all together. Programs that are predicted by
  /// rates must be among them. Launches that in each of their programs are among the smallest, which by rates take 2%
  /// of its time, keep their time by rates with kEach too.
  /// `observer` may be empty.
  void learn(std::span<const Program* const> programs, const ProfileObserver& observer = {});
  /// The relative error of one launch's time.
  [[nodiscard]] double launch_error(LaunchTiming timing) const;
  /// The sum over the launches of a step by themselves, or the time in which the host submits them if that is longer.
  [[nodiscard]] double step_ms(const Program& program, LaunchTiming timing);
  /// A launch that `measured` has too takes as long as there. Another one takes longer than by itself by the same
  /// factor as the launches of its kernel in `measured`, or, if there are none, its contractions or other launches: a
  /// step has colder caches, and a GPU at its power limit a lower clock. A step without `graph` takes at least as long
  /// as the host needs to submit it: for each launch what it took in `measured` if the host was the limit there.
  [[nodiscard]] PredictedStep predict(const Program& measured, const MeasuredStep& time, const Program& other,
                                      LaunchTiming timing);

 private:
  struct Launch {
    Step step;
    bool is_large = false;  ///< in a program that was learned
  };
  struct Kernel {
    std::vector<Launch> launches;  ///< distinct ones
    KernelRate rate;
  };
  void mark_large(const Program& program);
  /// Null for one that was not learned.
  [[nodiscard]] Launch* find(const Step& launch);
  [[nodiscard]] double launch_ms(const Step& launch, LaunchTiming timing);
  /// The longer of `device_ms` and the time to submit the launches, `submit_ms` for each.
  [[nodiscard]] static double step_ms(const Program& program, double device_ms, double submit_ms);

  LaunchClock& clock_;
  std::map<std::string, Kernel> kernels_;  // by rate_key()
  double rate_error_ = 0;
};

/// Launches of a program's step, as indices of its steps.
[[nodiscard]] std::vector<int> launches_of_step(const Program& program);

}  // namespace headroom
