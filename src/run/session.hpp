#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "backends/caching_allocator.hpp"
#include "base/host_tensor.hpp"
#include "plan/program.hpp"
#include "run/buffer_schedule.hpp"

namespace headroom {

class HeldWeights;
class WeightStore;

/// Called after each iteration of a loop with its number (0 first) and its wall time in milliseconds.
using IterationObserver = std::function<void(std::int64_t iteration, double milliseconds)>;

/// When a launch was made and waited for: wall time of the steady clock.
struct LaunchTime {
  std::chrono::steady_clock::time_point start;
  double milliseconds = 0;
};

/// Called after each launch with the index of its step in Program::steps. Of a tiled run's launches, which are made
/// once for each part and by all threads at once, it is told when the run is over: each takes the part of the run's
/// time that it took of the threads', one after the other.
using LaunchObserver = std::function<void(int step, const LaunchTime& time)>;

/// A program with memory: inputs, states and activations of its own, weights shared through the store.
/// With an arena every address is fixed at construction. Without (eager), activations come from a caching allocator
/// when first written and go back at last use. Either way nothing is allocated after the first run.
/// A program with the `graph` switch records each straight run of steps when it comes to it first, and replays it then
/// and from then on; what memory the recording uses is then held for good. One thread at a time.
class Session {
 public:
  /// Loads the weights the program needs and that the store does not hold yet, and holds them. `backend` must outlive the
  /// session. It runs on a stream of its own, or on one that others use too.
  Session(std::shared_ptr<const Program> program, WeightStore& weights, Backend& backend,
          std::shared_ptr<Stream> stream = nullptr);
  /// A program without weights.
  Session(std::shared_ptr<const Program> program, Backend& backend, std::shared_ptr<Stream> stream = nullptr);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Copies a tensor into the input of that name. Throws Error where there is none, or dtype or shape differ.
  void set_input(std::string_view name, const HostTensor& tensor);
  /// The same from dense bytes of the input's own dtype, which may be unaligned.
  void set_input_bytes(std::string_view name, std::span<const std::byte> bytes);
  /// Fills the input on the device.
  void set_input_normal(std::string_view name, const NormalStream& values);
  void set_state(std::string_view name, const HostTensor& tensor);

  /// Submits the program once; what the stream is given next runs after it. All inputs and states must have been set.
  /// With an observer, each iteration of a loop is waited for.
  void submit(const IterationObserver& observer = {});
  /// submit(), and waits.
  void run(const IterationObserver& observer = {});
  /// Recorded when a run has been submitted: for other streams to wait for its end.
  [[nodiscard]] const Event& completion() const noexcept { return *completion_; }
  /// Of the last run, if it had an observer: the wall time of what ran before, between and after the program's loops.
  [[nodiscard]] double outside_loops_ms() const noexcept { return outside_loops_ms_; }

  /// How often the host waited, in the last run, to read the predicate of an `if`.
  [[nodiscard]] std::int64_t host_reads() const noexcept { return host_reads_; }

  /// From now on each launch, or tiled run, is made by itself (nothing is replayed), waited for, timed and told; an
  /// empty observer ends that.
  void observe_launches(LaunchObserver observer) { launch_observer_ = std::move(observer); }

  /// A copy of an output, or of a state as it stands.
  [[nodiscard]] HostTensor output(std::string_view name) const;
  [[nodiscard]] HostTensor state(std::string_view name) const;
  /// The device address of an output's dense elements; valid until the next run.
  [[nodiscard]] const std::byte* output_address(std::string_view name) const;

  /// Frees the inputs' memory; the session can then only be read.
  void release_inputs();

  [[nodiscard]] const Program& program() const noexcept { return *program_; }
  /// Bytes of activations and scratch: the arena's size, or the most the caching allocator had handed out and what it
  /// holds.
  [[nodiscard]] std::size_t activation_peak_bytes() const;
  [[nodiscard]] std::size_t activation_reserved_bytes() const;
  [[nodiscard]] Stream& stream() noexcept { return *stream_; }

 private:
  /// A stream beside the session's own, and how far it is within a straight run of steps.
  struct Lane {
    std::unique_ptr<Stream> stream;
    std::unique_ptr<Event> joined;  ///< recorded at the end of a run of steps
    bool in_use = false;            ///< has been given a step of the current run
  };

  void allocate_fixed();
  void make_lanes();
  [[nodiscard]] std::byte* set_storage(std::string_view name);
  void require_given() const;
  void run_outside_loops(const Segment& segment, const IterationObserver& observer);
  void run_segment(const Segment& segment, const IterationObserver& observer);
  void run_loop(const Segment& segment, const IterationObserver& observer);
  void run_if(const Segment& segment, const IterationObserver& observer);
  void give_after(const Segment& segment);
  void run_steps(int first, int last);
  void submit_steps(int first, int last);
  void launch(const Step& step, Stream& stream);
  void launch_tiled(const TiledRun& run);
  void launch_part(const TiledRun& run, std::int64_t part, int thread);
  void launch_on_lane(int index);
  void join_lanes();
  void launch_observed(int index);
  void take(int storage);
  void give(int storage);
  [[nodiscard]] std::byte* address(const Place& place) const;
  [[nodiscard]] std::byte* part_base(int storage, const TiledRun& run, int thread) const;
  [[nodiscard]] std::byte* part_address(const Place& place, const TiledRun& run, std::int64_t part, int thread) const;
  [[nodiscard]] ValueId require(ValueKind kind, std::string_view name) const;
  [[nodiscard]] std::size_t index_of_output(std::string_view name) const;
  [[nodiscard]] HostTensor read(const TensorType& type, const Place& place) const;
  void write(ValueId value, std::string_view what, const HostTensor& tensor);

  std::shared_ptr<const Program> program_;
  Backend& backend_;
  std::shared_ptr<Stream> stream_;
  std::shared_ptr<Event> completion_;
  CachingAllocator allocator_;
  Buffer arena_;
  std::vector<Buffer> buffers_;                  // by storage: inputs, states, counters
  std::shared_ptr<HeldWeights> weights_;         // that the program uses; null where it has none
  std::vector<CachingAllocator::Block> blocks_;  // by storage: eager activations in use
  std::vector<std::byte*> bases_;                // by storage: where it begins now, or null
  std::vector<bool> is_set_;                     // by storage: an input or state that has been given
  BufferSchedule schedule_;
  /// The operands of the step that a thread launches, and what its launches in a tiled run took.
  struct Launcher {
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    std::vector<double> step_ms;  // by step of the run; kept only for a launch observer
  };
  std::vector<Launcher> launchers_;                       // by thread; what is in no tiled run is launched by the first
  std::map<int, std::unique_ptr<Recording>> recordings_;  // of straight runs of steps, by their first
  std::vector<Lane> lanes_;                               // of Program::lanes, but for the first
  std::unique_ptr<Event> forked_;                         // recorded where a run of steps begins
  std::vector<std::unique_ptr<Event>> done_;              // by step, where another lane waits for it
  double outside_loops_ms_ = 0;
  std::int64_t host_reads_ = 0;
  LaunchObserver launch_observer_;
};

}  // namespace headroom
