#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "measure/probes/frame_times.hpp"

namespace headroom {

/// What is shown of the latencies of frames, in milliseconds, all of them counted alike. Quantiles are those of quantile_of_sorted().
struct LatencySummary {
  double mean_ms = 0, p50_ms = 0, p90_ms = 0, p99_ms = 0, p99_9_ms = 0, max_ms = 0;
  /// The mean of how much the latency of a frame differs from that of the frame before (RFC 3393's variation, without its sign);
  /// 0 of a single frame.
  double jitter_ms = 0;
  /// How much larger the median of the last fifth is than that of the first, as a share of it; absent of fewer than
  /// kFramesOfDrift frames.
  std::optional<double> drift = {};
  friend bool operator==(const LatencySummary&, const LatencySummary&) = default;
};
inline constexpr std::size_t kFramesOfDrift = 50;

/// Throws Error where there are none, or one is not finite.
[[nodiscard]] LatencySummary summarize_latency(std::span<const double> latency_ms);

/// A live stream as it was measured: each frame from in to out. Columns have an entry for each frame that was shown, in the order in
/// which they were; of very long streams the last ones.
struct LatencyRecord {
  std::optional<double> input_fps =
      {};  ///< that the input was paced at, as a camera; absent where frames came as fast as they were taken
  bool drops = false;      ///< frames that came too late were dropped, not waited for
  std::int64_t came = 0;   ///< frames that came
  std::int64_t shown = 0;  ///< that were given away, repeated ones among them
  std::int64_t dropped = 0;
  std::int64_t repeated = 0;  ///< for which the similarity filter showed the last output again
  double seconds = 0;         ///< from the first frame in to the last one out
  std::vector<std::int64_t> frame = {};
  std::vector<double> arrived_ms = {}, latency_ms = {}, decode_ms = {}, queue_ms = {}, device_ms = {}, encode_ms = {};
  std::vector<std::int64_t> repeated_frames = {};  ///< their numbers
  LatencySummary statistics = {};                  ///< of latency_ms
  friend bool operator==(const LatencyRecord&, const LatencyRecord&) = default;
};

/// Throws Error, naming `place`, for columns of unequal length, frames out of order, parts that do not add up to the latency, and
/// counts that contradict each other or the columns.
void check_latency(const LatencyRecord& record, const std::string& place);

/// Collects the times of a stream's frames, the last kMost of them, without allocating after it is made. Times are kept in
/// microseconds.
class LatencyLog {
 public:
  static constexpr std::size_t kMost = 200'000;

  /// Room for so many frames, where it is known that there will be fewer.
  explicit LatencyLog(std::size_t most = kMost);

  void add(const FrameTimes& times);
  void drop() noexcept { ++dropped_; }
  [[nodiscard]] std::int64_t shown() const noexcept { return shown_; }
  [[nodiscard]] std::int64_t dropped() const noexcept { return dropped_; }
  /// Of all that was added, of which there must be some. `seconds` is how long the stream went on.
  [[nodiscard]] LatencyRecord record(std::optional<double> input_fps, bool drops, double seconds) const;

 private:
  struct Packed {
    std::int64_t frame = 0, arrived_us = 0;
    std::int32_t decode_us = 0, queue_us = 0, device_us = 0, encode_us = 0;
    bool repeated = false;
  };

  std::vector<Packed> frames_;  // frame i of those shown at i mod its size
  std::int64_t shown_ = 0, dropped_ = 0, repeated_ = 0;
};

}  // namespace headroom
