#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "measure/probes/frame_times.hpp"

namespace headroom {

/// Statistics of the latencies of frames, in milliseconds, with equal weights. Quantiles are those of
/// quantile_of_sorted().
struct LatencySummary {
  double mean_ms = 0, p50_ms = 0, p90_ms = 0, p99_ms = 0, p99_9_ms = 0, max_ms = 0;
  /// Mean absolute difference between the latencies of consecutive frames (RFC 3393's variation, without its sign); 0
  /// for a single frame.
  double jitter_ms = 0;
  /// Relative increase of the median from the first fifth of the frames to the last; absent for fewer than
  /// kFramesOfDrift frames.
  std::optional<double> drift = {};
  friend bool operator==(const LatencySummary&, const LatencySummary&) = default;
};
inline constexpr std::size_t kFramesOfDrift = 50;

/// Throws Error if there are no latencies, or one is not finite.
[[nodiscard]] LatencySummary summarize_latency(std::span<const double> latency_ms);

/// The measurement of a live stream: each frame from input to output. Columns have an entry for each frame that was
/// shown, in the order of output; for very long streams only the last frames.
struct LatencyRecord {
  std::optional<double> input_fps =
      {};  ///< rate at which the input was paced, as by a camera; absent if frames were taken as fast as possible
  bool drops = false;      ///< late frames were dropped, not waited for
  std::int64_t came = 0;   ///< input frames
  std::int64_t shown = 0;  ///< output frames, repeated ones included
  std::int64_t dropped = 0;
  std::int64_t repeated = 0;  ///< output frames for which the similarity filter repeated the last output
  double seconds = 0;         ///< from the first input frame to the last output
  std::vector<std::int64_t> frame = {};
  std::vector<double> arrived_ms = {}, latency_ms = {}, decode_ms = {}, queue_ms = {}, device_ms = {}, encode_ms = {};
  std::vector<std::int64_t> repeated_frames = {};  ///< their frame numbers
  LatencySummary statistics = {};                  ///< of latency_ms
  friend bool operator==(const LatencyRecord&, const LatencyRecord&) = default;
};

/// Throws Error, naming `place`, for columns of unequal length, frames out of order, parts that do not add up to the
/// latency, and counts that contradict each other or the columns.
void check_latency(const LatencyRecord& record, const std::string& place);

/// Collects the times of a stream's last kMost frames without allocating after construction. Times are stored in
/// microseconds.
class LatencyLog {
 public:
  static constexpr std::size_t kMost = 200'000;

  /// Reserves room for `most` frames, which may be lower if fewer frames are expected.
  explicit LatencyLog(std::size_t most = kMost);

  void add(const FrameTimes& times);
  void drop() noexcept { ++dropped_; }
  [[nodiscard]] std::int64_t shown() const noexcept { return shown_; }
  [[nodiscard]] std::int64_t dropped() const noexcept { return dropped_; }
  /// The record of all frames added, of which there must be at least one. `seconds` is the duration of the stream.
  [[nodiscard]] LatencyRecord record(std::optional<double> input_fps, bool drops, double seconds) const;

 private:
  struct Packed {
    std::int64_t frame = 0, arrived_us = 0;
    std::int32_t decode_us = 0, queue_us = 0, device_us = 0, encode_us = 0;
    bool repeated = false;
  };

  std::vector<Packed> frames_;  // ring buffer: shown frame i is at i mod its size
  std::int64_t shown_ = 0, dropped_ = 0, repeated_ = 0;
};

}  // namespace headroom
