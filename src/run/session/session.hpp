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

/// A program with memory: its own or the caller's for inputs, states and activations; weights are shared through the
/// store. With an arena, every address is fixed at construction. Without one (eager), a caching allocator gives
/// activations at their first write and frees them after their last use. In both cases nothing is allocated after the
/// first run.
///
/// A program with the `graph` switch is recorded as a whole in its first run, or each straight run of steps when it
/// is first reached; later executions replay the recording. Memory that a recording uses is then held permanently.
/// The program's setup (Program::setup) is a separate session on the same stream. This session sets the inputs of the
/// setup, and runs it before a run if one of its inputs or weights has changed. Not thread-safe.
class Session {
 public:
  /// Loads the program's weights that the store does not hold yet, and holds them. `backend` must outlive the
  /// session. It runs on its own stream, or on a given one that may be shared.
  Session(std::shared_ptr<const Program> program, WeightStore& weights, Backend& backend,
          std::shared_ptr<Stream> stream = nullptr);
  /// With a session of the program's setup that no other session has. The caller loads and unloads it separately, and
  /// calls submit_setup() before a run if something that it reads may have changed.
  Session(std::shared_ptr<const Program> program, WeightStore& weights, Backend& backend,
          std::shared_ptr<Session> setup);
  /// A program without weights that runs once: its arena cannot be unloaded.
  Session(std::shared_ptr<const Program> program, Backend& backend, std::shared_ptr<Stream> stream = nullptr);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Copies a tensor into the input of that name, at its current address. Throws Error for an unknown input, and for
  /// another dtype or shape.
  void set_input(std::string_view name, const HostTensor& tensor);
  /// The same from dense bytes of the input's own dtype, which may be unaligned.
  void set_input_bytes(std::string_view name, std::span<const std::byte> bytes);
  /// Calls `fill` with the input's memory, to submit what writes it to the session's stream.
  void fill_input(std::string_view name, const std::function<void(DevicePointer to)>& fill);
  /// Copies `part` [n, ...], which must be complete, to the n indices from `index` on along the outermost axis of the
  /// input. Throws Error for another dtype or shape.
  void set_input_part(std::string_view name, std::int64_t index, const DeviceTensor& part);
  /// Fills the input on the device.
  void set_input_normal(std::string_view name, const NormalStream& values);
  void set_state(std::string_view name, const HostTensor& tensor);
  /// As set_input_part().
  void set_state_part(std::string_view name, std::int64_t index, const DeviceTensor& part);
  /// Fills index `index` along the outermost axis of the state on the device.
  void set_state_normal(std::string_view name, std::int64_t index, const NormalStream& values);

  /// Binds an input, output or state to dense memory of the caller until it is bound again or unbound; the session
  /// frees its own. Kernels use the memory in place, except for some outputs, which are copied at the end of a run.
  /// These are outputs that are inputs, params or states, that have two names, or that belong to a program planned
  /// without `outputs_apart`. Runs are submitted to stream(); the caller's accesses must be ordered with it. Throws
  /// Error if the size differs from the value's, or if the address lacks the alignment of the backend's buffers.
  /// submit() throws Error if memory that a run writes to overlaps other bound memory. A setup reads a bound input in
  /// the next run after binding.
  void bind_input(std::string_view name, const DeviceMemory& memory);
  void bind_output(std::string_view name, const DeviceMemory& memory);
  void bind_state(std::string_view name, const DeviceMemory& memory);
  /// Returns it to memory of the session. An input or state must then be set again.
  void unbind_input(std::string_view name);
  void unbind_output(std::string_view name);
  void unbind_state(std::string_view name);

  /// Submits the program once; later work on the stream runs after it. All inputs and states must have been set. With
  /// an observer it waits for the end. If the program is replayed as a whole, the device's clock gives the times;
  /// otherwise the host waits for each iteration. A program without loops is one iteration. An exception of the
  /// observer ends the loop after the iteration in progress, and states keep the values of that iteration.
  void submit(const IterationObserver& observer = {});
  /// Submits the setup now.
  void submit_setup();
  /// Calls submit() and waits.
  void run(const IterationObserver& observer = {});
  /// Recorded after each submitted run, so that other streams can wait for its end.
  [[nodiscard]] const Event& completion() const noexcept { return *completion_; }
  /// The wall time before, between and after the program's loops, for the last run if it had an observer; 0 without
  /// loops.
  [[nodiscard]] double outside_loops_ms() const noexcept { return executor_.outside_loops_ms(); }

  /// How often the host waited to read the predicate of an `if` in the last run.
  [[nodiscard]] std::int64_t host_reads() const noexcept { return executor_.host_reads(); }
  /// The number of recordings that the host submitted in the last run: 1 if the program is replayed as a whole.
  [[nodiscard]] std::int64_t replays() const noexcept { return executor_.replays(); }
  /// Why a recorded program with loops or branches is not one recording, so that the host executes its control flow.
  /// Empty if it is one recording, before the first run, and if the device cannot execute control flow.
  [[nodiscard]] const std::optional<ReplayObstacle>& obstacle_to_one_replay() const noexcept {
    return executor_.obstacle_to_one_replay();
  }
  /// Records and replays only straight runs of steps, for profiling of single launches; false ends that.
  void record_by_step(bool by_step) { executor_.record_by_step(by_step); }
  /// Bytes that the last run copied to bound outputs because no kernel writes them there.
  [[nodiscard]] std::size_t copied_bytes() const noexcept { return executor_.copied_bytes() + copied_bytes_; }
  /// The number of straight runs of steps recorded so far. Binding other memory records again, except for the most
  /// recently bound sets.
  [[nodiscard]] std::int64_t recordings_made() const noexcept { return executor_.recordings_made(); }

  /// From now on, each launch or tiled run is submitted alone (nothing is replayed), waited for, timed and reported.
  /// An empty observer ends that.
  void observe_launches(LaunchObserver observer) { executor_.observe_launches(std::move(observer)); }

  /// A copy of an output, or of the current value of a state.
  [[nodiscard]] HostTensor output(std::string_view name) const;
  [[nodiscard]] HostTensor state(std::string_view name) const;
  /// A copy of an output on the device; it is complete on return.
  [[nodiscard]] DeviceTensor device_output(std::string_view name) const;
  /// The same of the rows [first, first + count) of an output [1, rows, ...], without the axis of 1: [count, ...].
  [[nodiscard]] DeviceTensor device_output_rows(std::string_view name, std::int64_t first, std::int64_t count) const;
  /// A tensor of zeros with that output's type and shape.
  [[nodiscard]] DeviceTensor zero_output(std::string_view name) const;
  /// The address of an output's dense elements on the device; valid until the next run.
  [[nodiscard]] DevicePointer output_pointer(std::string_view name) const;

  /// Frees the memory of the arena after all previously submitted work, for a session that is offloaded. The host
  /// does not wait; addresses and recordings stay valid. Inputs, states and outputs with their own memory are kept. So
  /// is a setup that the caller unloads separately.
  /// Until reload(), a run throws Error; reading an output in the arena throws Error until the next run. An arena
  /// smaller than the granularity of reservations (2 MiB) stays. The store unloads weights. Throws Error for a
  /// program without an arena, whose memory is allocated and freed as it runs.
  void unload();
  /// Allocates the memory again. Throws OutOfMemory.
  void reload();

  /// Whether its memory and weights are loaded: neither unload() nor WeightStore::unload() has freed any since.
  [[nodiscard]] bool is_loaded() const noexcept;

  /// Frees the inputs' memory; afterwards the session can only be read.
  void release_inputs();

  [[nodiscard]] const Program& program() const noexcept { return *program_; }
  /// The session of the program's setup; null if it has none.
  [[nodiscard]] const Session* setup() const noexcept { return setup_.get(); }
  /// How often the setup has run.
  [[nodiscard]] std::int64_t setups() const noexcept { return setups_; }
  /// Bytes of activations and scratch: the arena's size, or the peak of the caching allocator with the memory that it
  /// holds; plus outputs with their own memory.
  [[nodiscard]] std::size_t activation_peak_bytes() const { return memory_.activation_peak_bytes(); }
  [[nodiscard]] std::size_t activation_reserved_bytes() const { return memory_.activation_reserved_bytes(); }
  [[nodiscard]] Stream& stream() noexcept { return *stream_; }

 private:
  /// A bound output that is at another address during a run.
  struct OutputCopy {
    std::size_t output = 0;
    DeviceMemory to;
  };

  Session(std::shared_ptr<const Program> program, Backend& backend, std::shared_ptr<Stream> stream,
          SessionMemory::Arena arena);

  void hold(WeightStore& weights);
  void bind_setup();
  [[nodiscard]] Session* setup_with(std::string_view input);
  [[nodiscard]] bool owns_setup() const noexcept { return setup_ != nullptr && !is_setup_apart_; }
  [[nodiscard]] bool is_own_setup_due() const;
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
  std::shared_ptr<HeldWeights> weights_;  // of the program; null if it has none
  Bindings bindings_;
  bool is_rebound_ = false;      // since the last run
  bool is_arena_empty_ = false;  // unloaded since the last run
  std::vector<OutputCopy> output_copies_;
  std::size_t copied_bytes_ = 0;
  std::shared_ptr<Session> setup_;
  bool is_setup_apart_ = false;  // the caller loads and unloads it
  bool is_setup_due_ = true;
  std::int64_t setups_ = 0;
};

}  // namespace headroom
