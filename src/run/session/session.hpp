#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "backends/device_memory.hpp"
#include "base/tensors/host_tensor.hpp"
#include "plan/program.hpp"
#include "run/session/bindings.hpp"
#include "run/session/device_tensor.hpp"
#include "run/session/executor.hpp"
#include "run/session/session_memory.hpp"

namespace headroom {

class HeldWeights;
class WeightStore;

/// A program with memory: inputs, states and activations of its own or of the caller's, weights shared through the
/// store. With an arena every address is fixed at construction. Without (eager), activations come from a caching
/// allocator when first written and go back at last use. Either way nothing is allocated after the first run. A program
/// with the `graph` switch is recorded as a whole when it first runs, or each straight run of steps when it comes to it
/// first, and replayed then and from then on; what memory a recording uses is then held for good. A program's setup
/// (Program::setup) is a session of its own on the same stream, which this one gives its inputs and runs before a run where one of them or a
/// weight of it has changed. One thread at a time.
class Session {
 public:
  /// Loads the weights the program needs and that the store does not hold yet, and holds them. `backend` must outlive
  /// the session. It runs on a stream of its own, or on one that others use too.
  Session(std::shared_ptr<const Program> program, WeightStore& weights, Backend& backend,
          std::shared_ptr<Stream> stream = nullptr);
  /// A program without weights, to be run once: its arena cannot be unloaded.
  Session(std::shared_ptr<const Program> program, Backend& backend, std::shared_ptr<Stream> stream = nullptr);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Copies a tensor into the input of that name, wherever that lies. Throws Error where there is none, or dtype or
  /// shape differ.
  void set_input(std::string_view name, const HostTensor& tensor);
  /// The same from dense bytes of the input's own dtype, which may be unaligned.
  void set_input_bytes(std::string_view name, std::span<const std::byte> bytes);
  /// Copies `part` [1, ...], which is all there, to number `index` along the outermost axis of the input. Throws Error
  /// where dtype or shape are others than the input's.
  void set_input_part(std::string_view name, std::int64_t index, const DeviceTensor& part);
  /// Fills the input on the device.
  void set_input_normal(std::string_view name, const NormalStream& values);
  void set_state(std::string_view name, const HostTensor& tensor);
  /// As set_input_part().
  void set_state_part(std::string_view name, std::int64_t index, const DeviceTensor& part);
  /// Fills number `index` along the outermost axis of the state on the device.
  void set_state_normal(std::string_view name, std::int64_t index, const NormalStream& values);

  /// Lets an input, an output or a state lie in memory of the caller's, dense, until it is bound elsewhere or unbound;
  /// the session gives up its own. Nothing is copied but to outputs that are inputs, params or states, have two names,
  /// or are of a program that was not planned with `outputs_apart`: to those at the end of a run. Runs are submitted to
  /// stream(): what the caller does to the memory must be ordered with that. Throws Error where the size is another
  /// than the value's, or the address is not aligned as buffers of the backend are; submit() does where memory that a
  /// run writes to overlaps other memory that is bound. What a setup reads of an input that is bound is read at the next
  /// run after it was bound.
  void bind_input(std::string_view name, const DeviceMemory& memory);
  void bind_output(std::string_view name, const DeviceMemory& memory);
  void bind_state(std::string_view name, const DeviceMemory& memory);
  /// Gives it memory of the session's again: an input or a state must then be set anew.
  void unbind_input(std::string_view name);
  void unbind_output(std::string_view name);
  void unbind_state(std::string_view name);

  /// Submits the program once; what the stream is given next runs after it. All inputs and states must have been set.
  /// With an observer it waits for the end. Of a program that is replayed as a whole the device's own clock gives the
  /// times, else the host waits for each iteration; a program without loops is one iteration. What the observer throws
  /// ends the loop after the iteration that is under way, and states are then as that left them.
  void submit(const IterationObserver& observer = {});
  /// submit(), and waits.
  void run(const IterationObserver& observer = {});
  /// Recorded when a run has been submitted: for other streams to wait for its end.
  [[nodiscard]] const Event& completion() const noexcept { return *completion_; }
  /// Of the last run, if it had an observer: the wall time of what ran before, between and after the program's loops; 0 where
  /// there are none.
  [[nodiscard]] double outside_loops_ms() const noexcept { return executor_.outside_loops_ms(); }

  /// How often the host waited, in the last run, to read the predicate of an `if`.
  [[nodiscard]] std::int64_t host_reads() const noexcept { return executor_.host_reads(); }
  /// How many recordings the host submitted in the last run: 1 where a program is replayed as a whole.
  [[nodiscard]] std::int64_t replays() const noexcept { return executor_.replays(); }
  /// Why a program with loops or branches that is recorded was not so as a whole, and the host goes through it; empty
  /// where it was, where nothing has run, and where the device never does.
  [[nodiscard]] const std::optional<ReplayObstacle>& obstacle_to_one_replay() const noexcept {
    return executor_.obstacle_to_one_replay();
  }
  /// Records and replays only straight runs of steps, for who looks at launches one by one; or ends that.
  void record_by_step(bool by_step) { executor_.record_by_step(by_step); }
  /// What the last run copied to outputs that are bound, since no kernel writes them there.
  [[nodiscard]] std::size_t copied_bytes() const noexcept { return executor_.copied_bytes() + copied_bytes_; }
  /// How many straight runs of steps have been recorded so far: each again where other memory is bound, but for the few
  /// sets of memory bound last.
  [[nodiscard]] std::int64_t recordings_made() const noexcept { return executor_.recordings_made(); }

  /// From now on each launch, or tiled run, is made by itself (nothing is replayed), waited for, timed and told; an
  /// empty observer ends that.
  void observe_launches(LaunchObserver observer) { executor_.observe_launches(std::move(observer)); }

  /// A copy of an output, or of a state as it stands.
  [[nodiscard]] HostTensor output(std::string_view name) const;
  [[nodiscard]] HostTensor state(std::string_view name) const;
  /// A copy of an output that stays on the device; it is all there.
  [[nodiscard]] DeviceTensor device_output(std::string_view name) const;
  /// A tensor of zeros like that output.
  [[nodiscard]] DeviceTensor zero_output(std::string_view name) const;
  /// Where an output's dense elements lie on the device; valid until the next run.
  [[nodiscard]] DevicePointer output_pointer(std::string_view name) const;

  /// Gives back the memory of the arena, when all is done that was submitted before, for a session that waits for its
  /// turn; the host does not wait, and addresses and recordings stay. Inputs, states and outputs that are apart are kept.
  /// Until reload() a run throws Error; an output that lies in the arena does so until the next run. An arena smaller
  /// than what memory is reserved in (2 MiB) stays. Weights are the store's to unload. Throws Error for a program
  /// without an arena, whose memory comes and goes as it runs.
  void unload();
  /// Takes the memory again. Throws OutOfMemory.
  void reload();

  /// Whether its memory and its weights are there: neither unload() nor WeightStore::unload() has taken any since.
  [[nodiscard]] bool is_loaded() const noexcept;

  /// Frees the inputs' memory; the session can then only be read.
  void release_inputs();

  [[nodiscard]] const Program& program() const noexcept { return *program_; }
  /// That of the program's setup; null where it has none.
  [[nodiscard]] const Session* setup() const noexcept { return setup_.get(); }
  /// How often the setup has run.
  [[nodiscard]] std::int64_t setups() const noexcept { return setups_; }
  /// Bytes of activations and scratch: the arena's size, or the most the caching allocator had handed out and what it
  /// holds; and outputs' own memory where those are apart.
  [[nodiscard]] std::size_t activation_peak_bytes() const { return memory_.activation_peak_bytes(); }
  [[nodiscard]] std::size_t activation_reserved_bytes() const { return memory_.activation_reserved_bytes(); }
  [[nodiscard]] Stream& stream() noexcept { return *stream_; }

 private:
  /// An output that is bound and lies elsewhere during a run.
  struct OutputCopy {
    std::size_t output = 0;
    DeviceMemory to;
  };

  Session(std::shared_ptr<const Program> program, Backend& backend, std::shared_ptr<Stream> stream,
          SessionMemory::Arena arena);

  void bind_setup();
  [[nodiscard]] Session* setup_with(std::string_view input);
  void run_setup();
  void require_given() const;
  void require_readable(const Place& place) const;
  [[nodiscard]] DevicePointer given_pointer(ValueId value);
  void write_part(ValueId value, std::string_view what, std::int64_t index, const DeviceTensor& part);
  void bind(Bound what, ValueId value, const DeviceMemory& memory);
  void unbind(Bound what, ValueId value);
  [[nodiscard]] bool is_apart(std::size_t output) const;
  void copy_outputs();
  [[nodiscard]] ValueId require(ValueKind kind, std::string_view name) const;
  [[nodiscard]] std::size_t index_of_output(std::string_view name) const;
  [[nodiscard]] HostTensor read(const TensorType& type, const Place& place) const;
  void write(ValueId value, std::string_view what, const HostTensor& tensor);

  std::shared_ptr<const Program> program_;
  Backend& backend_;
  std::shared_ptr<Stream> stream_;
  std::shared_ptr<Event> completion_;
  SessionMemory memory_;
  Executor executor_;
  std::shared_ptr<HeldWeights> weights_;  // that the program uses; null where it has none
  Bindings bindings_;
  bool is_rebound_ = false;      // since the last run
  bool is_arena_empty_ = false;  // unloaded since the last run
  std::vector<OutputCopy> output_copies_;
  std::size_t copied_bytes_ = 0;
  std::unique_ptr<Session> setup_;
  bool is_setup_due_ = true;
  std::int64_t setups_ = 0;
};

}  // namespace headroom
