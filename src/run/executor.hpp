#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "plan/program.hpp"
#include "run/buffer_schedule.hpp"
#include "run/launcher.hpp"
#include "run/recordings.hpp"
#include "run/session_memory.hpp"

namespace headroom {

/// Called after each iteration of a loop with its number (0 first) and its wall time in milliseconds.
using IterationObserver = std::function<void(std::int64_t iteration, double milliseconds)>;

/// Submits a program: walks its segments, takes and gives back what comes and goes, and launches, records or replays
/// its straight runs of steps.
class Executor {
 public:
  /// All must outlive it.
  Executor(const Program& program, Backend& backend, Stream& stream, SessionMemory& memory);

  /// With an observer, each iteration of a loop is waited for.
  void run(const IterationObserver& observer);
  /// Says that other memory has been bound.
  void note_binding();
  /// See Session::observe_launches().
  void observe_launches(LaunchObserver observer) { launcher_.observe(std::move(observer)); }

  /// Of the last run: the wall time of what ran outside loops, if it had an observer, how often the host waited to read
  /// the predicate of an `if`, and bytes that the program copied to outputs that are bound.
  [[nodiscard]] double outside_loops_ms() const noexcept { return outside_loops_ms_; }
  [[nodiscard]] std::int64_t host_reads() const noexcept { return host_reads_; }
  [[nodiscard]] std::size_t copied_bytes() const noexcept { return copied_bytes_; }
  /// Recordings made so far.
  [[nodiscard]] std::int64_t recordings_made() const noexcept { return recordings_.made(); }

 private:
  /// A stream beside the session's own, and how far it is within a straight run of steps.
  struct Lane {
    std::unique_ptr<Stream> stream;
    std::unique_ptr<Event> joined;  ///< recorded at the end of a run of steps
    bool in_use = false;            ///< has been given a step of the current run
  };

  void make_lanes();
  void run_outside_loops(const Segment& segment, const IterationObserver& observer);
  void run_segment(const Segment& segment, const IterationObserver& observer);
  void run_loop(const Segment& segment, const IterationObserver& observer);
  void run_if(const Segment& segment, const IterationObserver& observer);
  void give_after(const Segment& segment);
  void run_steps(int first, int last);
  void submit_steps(int first, int last);
  void submit_step(int index, bool spread);
  void launch_on_lane(int index);
  void join_lanes();
  void count_copies(int first, int last);

  const Program& program_;
  Backend& backend_;
  Stream& stream_;
  SessionMemory& memory_;
  Launcher launcher_;
  BufferSchedule schedule_;
  Recordings recordings_;
  std::vector<Lane> lanes_;                   // of Program::lanes, but for the first
  std::unique_ptr<Event> forked_;             // recorded where a run of steps begins
  std::vector<std::unique_ptr<Event>> done_;  // by step, where another lane waits for it
  std::vector<int> output_copies_;            // steps that copy to an output that is apart
  double outside_loops_ms_ = 0;
  std::int64_t host_reads_ = 0;
  std::size_t copied_bytes_ = 0;
};

}  // namespace headroom
