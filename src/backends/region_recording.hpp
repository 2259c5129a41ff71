#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "backends/backend.hpp"

namespace headroom {

/// Called after each iteration of an outermost loop, with its number (from 0) and its time in milliseconds.
using IterationObserver = std::function<void(std::int64_t iteration, double milliseconds)>;

/// Records loops and branches that the device executes without the host. The work of a region is submitted to a
/// stream `inside`, which must differ from the region's own stream and from all enclosing ones.
class RegionRecorder {
 public:
  virtual ~RegionRecorder() = default;
  /// Runs what `body` submits `trip_count` times. The i32 at `counter`, which may be null, holds the number of the
  /// iteration; after the loop it holds that of the last.
  virtual void loop(Stream& stream, std::int64_t trip_count, DevicePointer counter, Stream& inside,
                    const std::function<void()>& body) = 0;
  /// Runs what `then` or `otherwise` submits, as the bool at `predicate` selects; null submits nothing.
  virtual void branch(Stream& stream, DevicePointer predicate, Stream& inside, const std::function<void()>& then,
                      const std::function<void()>& otherwise) = 0;
};

class RegionRecording : public Recording {
 public:
  /// Waits for earlier work of the stream, replays, reports iterations as they end, with their times by the device's
  /// clock, and waits for the end. An exception of the observer ends its loop after the running iteration (very
  /// short iterations: after several). The following loops are skipped, and the exception is rethrown when the
  /// device is done.
  virtual void replay_observed(Stream& stream, const IterationObserver& observer) = 0;
};

/// An additional interface of backends whose device executes loops and branches by itself.
class RegionBackend {
 public:
  virtual ~RegionBackend() = default;
  /// Like Backend::record(), for work with regions. Throws Error if a region holds work that it cannot contain.
  [[nodiscard]] virtual std::unique_ptr<RegionRecording> record_regions(
      Stream& stream, const std::function<void(RegionRecorder& recorder)>& submit) = 0;
  /// Names the work that a region cannot contain, "a copy from the host"; empty if there is none. Nothing runs.
  [[nodiscard]] virtual std::string obstacle_in_region(Stream& stream, const std::function<void()>& submit) = 0;
};

}  // namespace headroom
