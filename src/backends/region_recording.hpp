#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "backends/backend.hpp"

namespace headroom {

/// Called after each iteration of a loop that is in no other region, with its number (0 first) and its time in
/// milliseconds.
using IterationObserver = std::function<void(std::int64_t iteration, double milliseconds)>;

/// Takes down loops and branches as the device's own: it goes through them without the host. What a region does is
/// submitted to a stream `inside`, which is not the one that the region is submitted to, nor one around that.
class RegionRecorder {
 public:
  virtual ~RegionRecorder() = default;
  /// Runs what `body` submits `trip_count` times. The i32 at `counter`, which may be null, holds the number of the
  /// iteration, and when the loop is over that of the last.
  virtual void loop(Stream& stream, std::int64_t trip_count, DevicePointer counter, Stream& inside,
                    const std::function<void()>& body) = 0;
  /// Runs what `then` or `otherwise` submits, whichever the bool at `predicate` says; null for nothing.
  virtual void branch(Stream& stream, DevicePointer predicate, Stream& inside, const std::function<void()>& then,
                      const std::function<void()>& otherwise) = 0;
};

class RegionRecording : public Recording {
 public:
  /// Waits for what the stream was given before, replays, tells of iterations as they end, with their times by the
  /// device's clock, and waits for the end. What the observer throws ends its loop after the iteration that is under
  /// way (of very short ones after a few), skips the loops that follow, and is thrown when the device is done.
  virtual void replay_observed(Stream& stream, const IterationObserver& observer) = 0;
};

/// What a backend is besides whose device goes through loops and branches by itself.
class RegionBackend {
 public:
  virtual ~RegionBackend() = default;
  /// Backend::record() of work with regions. Throws Error where a region holds what cannot be in one.
  [[nodiscard]] virtual std::unique_ptr<RegionRecording> record_regions(
      Stream& stream, const std::function<void(RegionRecorder& recorder)>& submit) = 0;
  /// What of that work cannot be in a region, "a copy from the host"; empty where all can. Nothing runs.
  [[nodiscard]] virtual std::string obstacle_in_region(Stream& stream, const std::function<void()>& submit) = 0;
};

}  // namespace headroom
