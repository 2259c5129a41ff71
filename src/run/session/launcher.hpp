#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "plan/program.hpp"
#include "run/session/session_memory.hpp"

namespace headroom {

/// When a launch was made and waited for: wall time of the steady clock.
struct LaunchTime {
  std::chrono::steady_clock::time_point start;
  double milliseconds = 0;
};

/// Called after each launch with the index of its step in Program::steps. Of a tiled run's launches, which are made
/// once for each part and by all threads at once, it is told when the run is over: each takes the part of the run's
/// time that it took of the threads', one after the other.
using LaunchObserver = std::function<void(int step, const LaunchTime& time)>;

/// Launches steps of a program with their operands where they lie now.
class Launcher {
 public:
  /// All must outlive it.
  Launcher(const Program& program, Backend& backend, const SessionMemory& memory);

  void launch(const Step& step, Stream& stream);
  /// By all threads; `stream` is what kernels are told that they run on.
  void launch_tiled(const TiledRun& run, Stream& stream);
  /// launch(), waited for and told to the observer.
  void launch_observed(int index, Stream& stream);

  void observe(LaunchObserver observer) { observer_ = std::move(observer); }
  [[nodiscard]] bool is_observed() const { return static_cast<bool>(observer_); }

 private:
  /// The operands of the step that a thread launches, and what its launches in a tiled run took.
  struct Thread {
    std::vector<DevicePointer> inputs, outputs;
    std::vector<double> step_ms;  // by step of the run; kept only for an observer
  };

  void launch_part(const TiledRun& run, Stream& stream, std::int64_t part, int thread);
  void tell_tiled(const TiledRun& run, std::chrono::steady_clock::time_point start);
  [[nodiscard]] DevicePointer part_base(int storage, const TiledRun& run, int thread) const;
  [[nodiscard]] DevicePointer part_place(const Place& place, const TiledRun& run, std::int64_t part, int thread) const;

  const Program& program_;
  Backend& backend_;
  const SessionMemory& memory_;
  std::vector<Thread> threads_;  // what is in no tiled run is launched by the first
  LaunchObserver observer_;
};

}  // namespace headroom
