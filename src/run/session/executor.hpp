#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "backends/region_recording.hpp"
#include "plan/program.hpp"
#include "run/session/buffer_schedule.hpp"
#include "run/session/launcher.hpp"
#include "run/session/recordings.hpp"
#include "run/session/session_memory.hpp"

namespace headroom {

/// Why a recorded program is not one recording.
struct ReplayObstacle {
  std::string reason;
  std::string path = {};  ///< the module whose launch prevents it; empty if no module does
};

/// Submits a program: walks its segments, allocates and frees buffers, and launches, records or replays its straight
/// runs of steps. If the device executes loops and branches itself, a recorded program is one recording, and its
/// segments are walked once.
class Executor {
 public:
  /// All arguments must outlive it.
  Executor(const Program& program, Backend& backend, Stream& stream, SessionMemory& memory);

  /// With an observer it waits for the end, and for each iteration if the host drives the loop.
  void run(const IterationObserver& observer);
  /// Called after other memory has been bound.
  void note_binding();
  /// See Session::observe_launches().
  void observe_launches(LaunchObserver observer) { launcher_.observe(std::move(observer)); }
  /// See Session::record_by_step().
  void record_by_step(bool by_step) { records_by_step_ = by_step; }

  /// Figures of the last run: the wall time outside loops, if it had an observer; how often the host waited to read
  /// the predicate of an `if`; the number of replayed recordings; and the bytes copied to bound outputs. If the
  /// device chose a branch, the bytes are those of the branch that copies more.
  [[nodiscard]] double outside_loops_ms() const noexcept { return outside_loops_ms_; }
  [[nodiscard]] std::int64_t host_reads() const noexcept { return host_reads_; }
  [[nodiscard]] std::int64_t replays() const noexcept { return replays_; }
  [[nodiscard]] std::size_t copied_bytes() const noexcept { return copied_bytes_; }
  /// See Session::obstacle_to_one_replay().
  [[nodiscard]] const std::optional<ReplayObstacle>& obstacle_to_one_replay() const noexcept { return obstacle_; }
  /// The number of recordings made so far.
  [[nodiscard]] std::int64_t recordings_made() const noexcept { return recordings_.made(); }

 private:
  /// A stream next to the first one, and its progress within a straight run of steps.
  struct Lane {
    std::unique_ptr<Stream> stream;
    std::unique_ptr<Event> joined;  ///< recorded at the end of a run of steps
    bool in_use = false;            ///< a step of the current run was submitted to it
  };
  /// The streams that share a straight run of steps.
  struct Lanes {
    Stream* first = nullptr;
    std::unique_ptr<Stream> own;  ///< the first, if it is not the session's
    std::vector<Lane> others;     ///< of Program::lanes
  };

  Lanes make_lanes(std::unique_ptr<Stream> own);
  void make_events();
  void run_as_one_iteration(const IterationObserver& observer);
  void run_outside_loops(const Segment& segment, const IterationObserver& observer);
  void run_segment(const Segment& segment);
  void run_loop(const Segment& segment, const IterationObserver& observer);
  void run_if(const Segment& segment);
  void give_after(const Segment& segment);
  void run_steps(int first, int last);
  void submit_steps(int first, int last, Lanes& lanes);
  void submit_step(int index, Lanes& lanes, bool spread);
  void launch_on_lane(int index, Lanes& lanes);
  static void join(Lanes& lanes);
  [[nodiscard]] std::size_t bytes_copied_by(int first, int last) const;

  [[nodiscard]] RegionRecording* whole_recording();
  void replay_whole(RegionRecording& recording, const IterationObserver& observer);
  void record_segment(const Segment& segment, RegionRecorder& recorder, std::size_t depth);
  [[nodiscard]] std::size_t most_bytes_copied_by(const Segment& segment) const;
  [[nodiscard]] std::optional<ReplayObstacle> find_obstacle(RegionBackend& device, const Segment& segment,
                                                            bool in_region);

  const Program& program_;
  Backend& backend_;
  Stream& stream_;
  SessionMemory& memory_;
  Launcher launcher_;
  BufferSchedule schedule_;
  Recordings recordings_;
  std::vector<Lanes> lanes_;                  // by the number of enclosing regions recorded with them
  std::unique_ptr<Event> forked_;             // recorded where a run of steps begins
  std::vector<std::unique_ptr<Event>> done_;  // by step, if another lane waits for it
  std::vector<int> output_copies_;            // steps that copy to an output with its own memory
  bool records_by_step_ = false;
  std::optional<ReplayObstacle> obstacle_;
  double outside_loops_ms_ = 0;
  std::int64_t host_reads_ = 0;
  std::int64_t replays_ = 0;
  std::size_t copied_bytes_ = 0;
};

}  // namespace headroom
