#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "plan/program.hpp"

namespace headroom {

/// The launches of a program in the order in which they are submitted, loops unrolled: indices in Program::steps.
[[nodiscard]] std::vector<int> launch_order(const Program& program);

/// The loop of the program that runs the denoise steps, or null.
[[nodiscard]] const Segment* find_loop(const Segment& segment);

/// What a device did in one run of a program, launch by launch.
class LaunchTimes {
 public:
  explicit LaunchTimes(const Program& program);

  /// Learns how many pieces of work each launch is, from a run in which each was waited for: `ends` has its step and
  /// the time at which it was over, in order, on the clock of the activities. Throws Error where the same launch is now
  /// one number and now another.
  void learn(std::span<const std::pair<int, std::int64_t>> ends, std::span<const DeviceActivity> activities);

  /// Adds a run in which nothing was waited for, launched or replayed, on one stream or several: its activities in
  /// order of submission belong to the launches in order of the schedule, which their names confirm. Copies to and from
  /// the host do not count. Throws Error where there are others than there should be.
  void add(std::span<const DeviceActivity> activities);

  /// Milliseconds of every time a launch ran, by step: those of its pieces by own_ns().
  [[nodiscard]] const std::vector<std::vector<double>>& launch_ms() const noexcept { return launch_ms_; }
  /// For every turn of the denoise loop but the last of each run, the share of its time in which the device did
  /// nothing: from its first activity to the first of the next turn.
  [[nodiscard]] const std::vector<double>& idle_shares() const noexcept { return idle_shares_; }
  /// And the milliseconds of it in which the device did something.
  [[nodiscard]] const std::vector<double>& busy_ms() const noexcept { return busy_ms_; }
  /// For each activity of the last run in order of start, host copies left out, the step it belongs to.
  [[nodiscard]] const std::vector<int>& steps_of_last() const noexcept { return steps_of_last_; }

 private:
  const Program& program_;
  std::vector<int> order_;
  std::vector<std::optional<std::vector<std::string>>> pieces_;  // names of the activities of one launch, by step
  std::vector<std::vector<double>> launch_ms_;
  std::vector<double> idle_shares_, busy_ms_;
  std::vector<int> steps_of_last_;
};

/// The activities but for copies to and from the host.
[[nodiscard]] std::vector<DeviceActivity> without_host_copies(std::span<const DeviceActivity> activities);

/// The nanoseconds that each activity adds to what its stream has done; they are in order of start. A kernel may begin before
/// the one in front of it on its stream has ended, for which it then waits: it counts from that end on, so that no time
/// counts twice.
[[nodiscard]] std::vector<std::int64_t> own_ns(std::span<const DeviceActivity> activities);

/// How much of [begin_ns, end_ns) activities cover; they are in order of start.
[[nodiscard]] std::int64_t busy_ns(std::span<const DeviceActivity> activities, std::int64_t begin_ns,
                                   std::int64_t end_ns);

}  // namespace headroom
