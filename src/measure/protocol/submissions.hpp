#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "backends/backend.hpp"
#include "measure/statistics/trials.hpp"

/// Times of work that a device is given, warm and cold. Warm, the work is done again and again, so that what fits into
/// a cache is found there; cold, caches are emptied before each time, as for a kernel whose operands were last touched
/// long ago. Work on more than twice the last-level cache has the same time either way.
namespace headroom {

/// How an op or a copy is timed: calls of microseconds are batched to a millisecond, so that the clock does not show.
[[nodiscard]] Protocol short_protocol(const Backend& backend, double max_seconds);

/// Times of one `submit`, which gives the stream a piece of work whose addresses never change. On a GPU many are
/// recorded and replayed one behind the other, so that neither launches nor waiting are in their times.
[[nodiscard]] Trials time_submissions(Backend& backend, Stream& stream, const std::function<void()>& submit,
                                      const Protocol& protocol);

/// Puts other data into a device's caches.
class CacheEvictor {
 public:
  /// Holds twice the last-level cache of the device, or 512 MiB where the system does not tell how large that is.
  /// Throws OutOfMemory where there is not so much.
  explicit CacheEvictor(Backend& backend);
  /// Submits the reading of all of it to `stream`.
  void submit(Stream& stream);

 private:
  Backend& backend_;
  std::size_t bytes_;  // of each half
  Buffer first_;
  Buffer second_;
};

/// Times of one `submit` after an eviction each, by events on the stream: on a GPU the time on the device, launches
/// being hidden behind the eviction.
[[nodiscard]] Trials time_cold_submissions(Backend& backend, Stream& stream, const std::function<void()>& submit,
                                           CacheEvictor& evictor, const Protocol& protocol);

/// Copies on the device (read once and written once), all threads of a CPU at work.
class CopyRun {
 public:
  /// `backend` must outlive the object.
  explicit CopyRun(Backend& backend) : backend_(backend), stream_(backend.make_stream()) {}
  /// Makes room for copies of up to so many bytes. Throws OutOfMemory where both tensors do not fit.
  void reserve(std::size_t bytes);
  /// Of so many bytes, for which there must be room.
  void submit(std::size_t bytes);
  [[nodiscard]] Stream& stream() { return *stream_; }

 private:
  Backend& backend_;
  std::unique_ptr<Stream> stream_;
  Buffer from_, to_;
};

}  // namespace headroom
