#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "backends/backend.hpp"
#include "measure/statistics/trials.hpp"

/// Times of work submitted to a device, with warm and cold caches. Warm: the work is repeated, so data that fits into
/// a cache is found there. Cold: caches are emptied before each repetition, as for a kernel whose operands were last
/// used long ago. Work on more than twice the last-level cache takes the same time in both cases.
namespace headroom {

/// The protocol for an op or a copy: calls of microseconds are batched to a millisecond, to hide the clock's
/// resolution.
[[nodiscard]] Protocol short_protocol(const Backend& backend, double max_seconds);

/// Times of one `submit`, which submits a piece of work with constant addresses to the stream. On a GPU many are
/// recorded and replayed back to back, so that neither launches nor waiting are included.
[[nodiscard]] Trials time_submissions(Backend& backend, Stream& stream, const std::function<void()>& submit,
                                      const Protocol& protocol);

/// How many launches of this time a trial of time_submissions() under short_protocol() has, during which conditions
/// are observed.
[[nodiscard]] double launches_in_trial(double launch_ms, bool is_cpu);

/// Evicts a device's caches by reading other data.
class CacheEvictor {
 public:
  /// Allocates twice the last-level cache of the device, or 512 MiB if the system does not report its size. Throws
  /// OutOfMemory if there is not enough memory.
  explicit CacheEvictor(Backend& backend);
  /// Submits a read of all of it to `stream`.
  void submit(Stream& stream);

 private:
  Backend& backend_;
  std::size_t bytes_;  // of each half
  Buffer first_;
  Buffer second_;
};

/// Times of one `submit`, each after an eviction, by events on the stream. On a GPU this is the time on the device,
/// because the eviction hides the launch.
[[nodiscard]] Trials time_cold_submissions(Backend& backend, Stream& stream, const std::function<void()>& submit,
                                           CacheEvictor& evictor, const Protocol& protocol);

/// Copies on the device (each byte read once and written once); on a CPU with all threads.
class CopyRun {
 public:
  /// `backend` must outlive the object.
  explicit CopyRun(Backend& backend) : backend_(backend), stream_(backend.make_stream()) {}
  /// Allocates room for copies of up to `bytes`. Throws OutOfMemory if both tensors do not fit.
  void reserve(std::size_t bytes);
  /// Submits a copy of `bytes`, for which room must be reserved.
  void submit(std::size_t bytes);
  [[nodiscard]] Stream& stream() { return *stream_; }

 private:
  Backend& backend_;
  std::unique_ptr<Stream> stream_;
  Buffer from_, to_;
};

}  // namespace headroom
