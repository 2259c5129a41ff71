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

/// When a launch started, and how long it took: wall time of the steady clock.
struct LaunchTime {
  std::chrono::steady_clock::time_point start;
  double milliseconds = 0;
};

/// Called after each launch with the index of its step in Program::steps. A tiled run makes its launches once for
/// each part and on all threads at once. They are reported after the run, one after the other; each gets the share of
/// the run's time that it took of the threads' time.
using LaunchObserver = std::function<void(int step, const LaunchTime& time)>;

/// Launches steps of a program with the current addresses of their operands.
class Launcher {
 public:
  /// All arguments must outlive it.
  Launcher(const Program& program, Backend& backend, const SessionMemory& memory);

  void launch(const Step& step, Stream& stream);
  /// Launches on all threads; kernels get `stream` as their stream.
  void launch_tiled(const TiledRun& run, Stream& stream);
  /// Launches, waits, and reports to the observer.
  void launch_observed(int index, Stream& stream);

  void observe(LaunchObserver observer) { observer_ = std::move(observer); }
  [[nodiscard]] bool is_observed() const { return static_cast<bool>(observer_); }

 private:
  /// A thread's operands of the current step, and its launch times in a tiled run.
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
  std::vector<Thread> threads_;  // the first launches all steps outside tiled runs
  LaunchObserver observer_;
};

}  // namespace headroom
