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

/// The launches of a program in submission order, with loops unrolled: indices in Program::steps.
[[nodiscard]] std::vector<int> launch_order(const Program& program);

/// The loop of the program that runs the denoise steps, or null.
[[nodiscard]] const Segment* find_loop(const Segment& segment);

/// The work of a device in one run of a program, by launch.
class LaunchTimes {
 public:
  explicit LaunchTimes(const Program& program);

  /// Learns the number of device activities of each launch, from a run that waited for each launch. `ends` has each
  /// launch's step and end time, in order, on the clock of the activities. Throws Error if the number of one launch
  /// varies.
  void learn(std::span<const std::pair<int, std::int64_t>> ends, std::span<const DeviceActivity> activities);

  /// Adds a run without waits, launched or replayed, on one stream or several. Its activities in submission order are
  /// assigned to the launches in schedule order, and checked by their names. Copies to and from the host are ignored.
  /// Throws Error if the activities do not match.
  void add(std::span<const DeviceActivity> activities);

  /// Milliseconds of every execution of a launch, by step: the sum of its activities by own_ns().
  [[nodiscard]] const std::vector<std::vector<double>>& launch_ms() const noexcept { return launch_ms_; }
  /// For every iteration of the denoise loop except the last of each run: the share of its time in which the device
  /// was idle. An iteration lasts from its first activity to the first of the next one.
  [[nodiscard]] const std::vector<double>& idle_shares() const noexcept { return idle_shares_; }
  /// The milliseconds of each of these iterations in which the device was busy.
  [[nodiscard]] const std::vector<double>& busy_ms() const noexcept { return busy_ms_; }
  /// For each activity of the last run in order of start, without host copies: the step it belongs to.
  [[nodiscard]] const std::vector<int>& steps_of_last() const noexcept { return steps_of_last_; }

 private:
  const Program& program_;
  std::vector<int> order_;
  std::vector<std::optional<std::vector<std::string>>> pieces_;  // names of the activities of one launch, by step
  std::vector<std::vector<double>> launch_ms_;
  std::vector<double> idle_shares_, busy_ms_;
  std::vector<int> steps_of_last_;
};

/// The activities without copies to and from the host.
[[nodiscard]] std::vector<DeviceActivity> without_host_copies(std::span<const DeviceActivity> activities);

/// The nanoseconds that each activity adds to the work of its stream; activities are in order of start. A kernel may
/// start before its predecessor on the stream has ended, and then waits for it (programmatic dependent launch). It
/// counts from that end on, so that no time counts twice.
[[nodiscard]] std::vector<std::int64_t> own_ns(std::span<const DeviceActivity> activities);

/// How much of [begin_ns, end_ns) is covered by activities, which are in order of start.
[[nodiscard]] std::int64_t busy_ns(std::span<const DeviceActivity> activities, std::int64_t begin_ns,
                                   std::int64_t end_ns);

}  // namespace headroom
