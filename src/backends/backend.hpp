#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#include "backends/device_memory.hpp"
#include "base/target.hpp"
#include "base/tensors/dtype.hpp"
#include "base/tensors/random.hpp"

namespace headroom {

class Backend;
class Communicator;  // backends/communicator.hpp

/// The purpose of device memory; every byte is booked under one category.
enum class MemoryCategory : std::uint8_t { kWeights, kActivations, kWorkspace, kState, kInputs };
inline constexpr std::size_t kMemoryCategories = 5;
[[nodiscard]] std::string_view name_of(MemoryCategory category);

/// Device memory held by this process through one backend, in bytes.
struct MemoryUse {
  std::array<std::size_t, kMemoryCategories> used{};  ///< now, by category
  std::size_t total = 0;                              ///< now
  std::size_t peak = 0;                               ///< the most that `total` has been since reset_peak()
  std::uint64_t allocations = 0;                      ///< calls of allocate() and reserve() so far
};

/// A block of device memory, freed with the object. Addresses are aligned to 64 bytes on a CPU, 256 on a GPU. The
/// memory of a buffer that can be unloaded may leave and return; its address stays the same.
class Buffer {
 public:
  Buffer() = default;
  ~Buffer();
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  /// The address `offset` bytes into the buffer; null for an empty one.
  [[nodiscard]] DevicePointer at(std::size_t offset = 0) const noexcept { return {handle_, offset}; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  /// Whether Backend::reserve() gave it addresses of its own.
  [[nodiscard]] bool can_unload() const noexcept { return can_unload_; }
  [[nodiscard]] bool is_loaded() const noexcept { return is_loaded_; }
  /// Returns the memory once all work submitted before is done. Until reload(), no submitted work may read or write
  /// it: on a CPU that faults.
  void unload();
  /// Maps memory again, with undefined contents, for work submitted from now on. Throws OutOfMemory.
  void reload();

 private:
  friend class Backend;
  Buffer(Backend& backend, void* handle, std::size_t bytes, MemoryCategory category, bool can_unload) noexcept
      : backend_(&backend),
        handle_(handle),
        bytes_(bytes),
        category_(category),
        can_unload_(can_unload),
        is_loaded_(true) {}
  void free() noexcept;

  Backend* backend_ = nullptr;
  void* handle_ = nullptr;
  std::size_t bytes_ = 0;
  MemoryCategory category_ = MemoryCategory::kActivations;
  bool can_unload_ = false;
  bool is_loaded_ = false;
};

class Event;

/// A queue of work on a device, run in order. On a CPU each piece runs at once, on the calling thread and its OpenMP
/// team.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Work submitted from now on runs after all work submitted before `event` was recorded.
  virtual void wait(const Event& event) = 0;
  /// Returns when all work submitted so far is done.
  virtual void synchronize() = 0;
  /// The device's own handle (cudaStream_t), or null where there is none.
  [[nodiscard]] virtual void* native_handle() const noexcept = 0;
};

/// Work captured from a stream, to be replayed many times at the cost of one launch.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void replay(Stream& stream) = 0;
};

/// A point in a stream's work, for other streams to wait for and for timing on the device.
class Event {
 public:
  virtual ~Event() = default;
  virtual void record(Stream& stream) = 0;
  /// Device time from `start` to this event in milliseconds; waits for both.
  [[nodiscard]] virtual double milliseconds_since(const Event& start) const = 0;
};

/// A page-locked host copy of device memory. Transfers run at the rate of the link, and the host waits for neither
/// direction.
class HostCopy {
 public:
  virtual ~HostCopy() = default;
  virtual void save(Stream& stream, DevicePointer from) = 0;
  virtual void restore(Stream& stream, DevicePointer to) = 0;
};

/// One kernel, copy or fill as a device executed it.
struct DeviceActivity {
  enum class Kind : std::uint8_t { kKernel, kCopy, kHostCopy, kFill };
  Kind kind = Kind::kKernel;
  std::string name;           ///< of a kernel as the source has it; "copy", "fill"
  std::int64_t start_ns = 0;  ///< on the clock of DeviceTrace::now_ns()
  std::int64_t end_ns = 0;
  std::int64_t stream = 0;
  std::size_t bytes = 0;        ///< of copies and fills
  std::uint64_t launch = 0;     ///< rises with each submission by the host; a replay is one
  std::uint64_t in_replay = 0;  ///< rises with each piece of a recording; 0 outside recordings
};

/// Traces a device's work during its lifetime. Only one can exist at a time.
class DeviceTrace {
 public:
  virtual ~DeviceTrace() = default;
  /// Host time on the clock of the activities.
  [[nodiscard]] virtual std::int64_t now_ns() const = 0;
  /// Waits for the device, and returns its work since the trace began or was last collected, in order of start.
  [[nodiscard]] virtual std::vector<DeviceActivity> collect() = 0;
};

/// The target of planning: the facts about a device, and the device itself, which libraries are asked and timed on.
struct DeviceTarget : Target {
  DeviceTarget() = default;
  explicit DeviceTarget(const Target& facts, Backend* opened) : Target(facts), backend(opened) {}
  /// Facts of a device that is not asked. Only of a temporary: a named Target may be the copy of a device's facts.
  // NOLINTNEXTLINE(google-explicit-constructor): plans for made-up facts say only those
  DeviceTarget(Target&& facts) : Target(facts) {}

  NewWork new_work = NewWork::kMeasure;
  Backend* backend = nullptr;  ///< null if no kernel asks the device, as on a CPU
  /// The links of this rank to the others; null if there is one rank alone.
  std::shared_ptr<Communicator> communicator = nullptr;
};

struct DeviceProperties {
  std::string name;                 ///< as the vendor writes it: "AMD EPYC 9R14", "NVIDIA H200"
  DeviceTarget target;              ///< selects the code that may run on it
  std::size_t memory_bytes = 0;     ///< installed
  std::size_t available_bytes = 0;  ///< free at the time of the query
  // GPU fields; 0 and empty on a CPU.
  int clock_mhz = 0;         ///< the highest clock of its multiprocessors
  int memory_clock_mhz = 0;  ///< the highest of its memory
  std::string driver = {};   ///< the newest CUDA version that the driver runs: "13.0"
  std::string runtime = {};  ///< the CUDA version this program was built with
};

/// A device: memory, copies, streams, events, properties. It knows no operation. Failures (out of memory, device
/// lost) throw Error with what was needed and what is available.
///
/// Memory may be freed while work submitted earlier to streams of this backend still uses it: it is not reused
/// before that work is done.
class Backend {
 public:
  virtual ~Backend() = default;

  [[nodiscard]] virtual DeviceProperties properties() const = 0;
  /// Makes the GPU current in the calling thread. Opening the backend does so in the opening thread; every other
  /// thread must call this before it uses the backend.
  virtual void make_current() const {}
  /// On a CPU: at most this many threads do what the calling thread submits from now on; kernels have their own number,
  /// that of the target they were prepared for. Ranks that share a CPU call this on their threads.
  virtual void limit_threads(int /*threads*/) const {}
  /// Uninitialized memory. Throws Error when there is not enough.
  [[nodiscard]] Buffer allocate(std::size_t bytes, MemoryCategory category);
  /// Like allocate(), with an address range of its own, so that the buffer can be unloaded and reloaded. For large
  /// buffers: it takes reserved_size(bytes). Sizes below reserve_granularity() are allocated, and cannot be
  /// unloaded.
  [[nodiscard]] Buffer reserve(std::size_t bytes, MemoryCategory category);
  [[nodiscard]] std::size_t reserved_size(std::size_t bytes) const;
  /// 0 if memory cannot be unmapped from its addresses: then everything is allocated.
  [[nodiscard]] virtual std::size_t reserve_granularity() const { return 0; }
  /// An uninitialized host copy of `bytes`; null if host memory is the device's own. Throws Error if the host is out
  /// of memory.
  [[nodiscard]] virtual std::unique_ptr<HostCopy> make_host_copy(std::size_t /*bytes*/) { return nullptr; }
  /// `host` may be changed or freed as soon as this returns, though the copy may still be running.
  virtual void copy_from_host(Stream& stream, DevicePointer device, const void* host, std::size_t bytes) = 0;
  /// `host` holds the bytes once the stream has been synchronized.
  virtual void copy_to_host(Stream& stream, void* host, DevicePointer device, std::size_t bytes) = 0;
  virtual void copy_on_device(Stream& stream, DevicePointer to, DevicePointer from, std::size_t bytes) = 0;
  /// The first `count` elements of `from` in `dtype`, a float: the same bits on every device.
  virtual void fill_normal(Stream& stream, DevicePointer device, DType dtype, std::uint64_t count,
                           const NormalStream& from) = 0;
  [[nodiscard]] virtual std::unique_ptr<Stream> make_stream() = 0;
  /// A stream that belongs to the caller, by its native handle (cudaStream_t), which must outlive the result.
  [[nodiscard]] virtual std::unique_ptr<Stream> adopt_stream(void* native_handle) = 0;
  [[nodiscard]] virtual std::unique_ptr<Event> make_event() = 0;
  /// Captures what `submit` submits to `stream`, without running it: launches and device copies with their current
  /// addresses. The work need not have run before: preparing a kernel sets up all that it needs. A CPU has nothing
  /// to record, and throws std::logic_error.
  [[nodiscard]] virtual std::unique_ptr<Recording> record(Stream& stream, const std::function<void()>& submit);

  /// Throws Error with the reason if this device, or the software installed for it, cannot be traced.
  [[nodiscard]] virtual std::unique_ptr<DeviceTrace> make_trace();

  /// Milliseconds that one copy of `bytes` from page-locked host memory to the device takes, after one warm-up copy:
  /// a lower bound for every copy from the host. Nothing if host memory is the device's own.
  [[nodiscard]] virtual std::optional<double> host_link_ms(std::size_t /*bytes*/) { return std::nullopt; }

  /// Names the work that this thread submits until end_range(), for an attached profiler; ranges nest.
  virtual void begin_range(const char* /*name*/) noexcept {}
  virtual void end_range() noexcept {}

  /// An object kept per device, for example a library's handle. It is made as T(*this) at the first request, and
  /// shared by all callers. It lives as long as the backend and its other holders, so it must not hold any of the
  /// backend's memory.
  template <class T>
  [[nodiscard]] std::shared_ptr<T> context() {
    return std::static_pointer_cast<T>(find_context(
        typeid(T), [](Backend& backend) -> std::shared_ptr<void> { return std::make_shared<T>(backend); }));
  }

  /// Device memory taken from the system: memory_use().total, and what a pool keeps for reuse.
  [[nodiscard]] virtual std::size_t reserved_bytes() const { return memory_use().total; }
  /// Returns reserved memory that is not in use to the system, and waits for work that still uses it. Without this
  /// call, freed or unloaded memory stays reserved in addition to its replacement until memory is short.
  virtual void release_unused() {}
  /// All memory that a device has given up since the backend was opened, its context not counted: what is reserved
  /// here, by libraries and for recordings (and by other programs, if there are any). Nothing on a CPU.
  [[nodiscard]] virtual std::optional<std::size_t> taken_bytes() const { return std::nullopt; }
  [[nodiscard]] MemoryUse memory_use() const noexcept;
  /// Resets the peak to the current use.
  void reset_peak() noexcept;

 protected:
  /// Returns the backend's handle of a buffer.
  [[nodiscard]] virtual void* allocate_bytes(std::size_t bytes) = 0;
  virtual void free_bytes(void* buffer, std::size_t bytes) noexcept = 0;
  /// A buffer with an address range of its own, a multiple of reserve_granularity() in size, for a device that
  /// supports it.
  [[nodiscard]] virtual void* reserve_bytes(std::size_t bytes);
  virtual void unload_bytes(void* buffer, std::size_t bytes);
  virtual void reload_bytes(void* buffer, std::size_t bytes);
  virtual void free_reserved_bytes(void* /*buffer*/, std::size_t /*bytes*/) noexcept {}

 private:
  friend class Buffer;
  [[nodiscard]] Buffer make_buffer(void* handle, std::size_t bytes, MemoryCategory category, bool can_unload);
  void book(std::size_t bytes, MemoryCategory category) noexcept;
  void unbook(std::size_t bytes, MemoryCategory category) noexcept;
  std::shared_ptr<void> find_context(std::type_index type, std::shared_ptr<void> (*make)(Backend&));

  mutable std::mutex use_mutex_;  // ranks that share a CPU allocate from their own threads
  MemoryUse use_;
  std::recursive_mutex contexts_mutex_;  // recursive: making one context may request another
  std::map<std::type_index, std::shared_ptr<void>> contexts_;
};

/// The backend of a device. `threads` limits CPU threads (0: all that the affinity mask allows). Throws Error with
/// the device's name if this build or machine does not have it.
[[nodiscard]] std::unique_ptr<Backend> make_backend(DeviceKind device, int threads = 0);

}  // namespace headroom
