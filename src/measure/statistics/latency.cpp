#include "measure/statistics/latency.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "measure/statistics/statistics.hpp"

namespace headroom {
namespace {

constexpr double kMicroseconds = 1000;  // of a millisecond
constexpr std::size_t kFifths = 5;

std::int64_t to_us(double ms) { return std::llround(ms * kMicroseconds); }
double to_ms(std::int64_t us) { return static_cast<double>(us) / kMicroseconds; }
/// Converts the time of one part of a frame; it is clamped to about half an hour, longer than any realistic frame.
std::int32_t part_us(double ms) {
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(to_us(ms), 0, std::numeric_limits<std::int32_t>::max()));
}

double median_of(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  return quantile_of_sorted(sorted, 0.5);
}

}  // namespace

LatencySummary summarize_latency(std::span<const double> latency_ms) {
  if (latency_ms.empty()) fail("there are no frames to summarize; at least one is needed");
  for (const double latency : latency_ms)
    if (!std::isfinite(latency)) fail("the latency of a frame is {}; latencies must be finite", latency);
  std::vector<double> sorted(latency_ms.begin(), latency_ms.end());
  std::ranges::sort(sorted);
  double sum = 0, changes = 0;
  for (std::size_t i = 0; i < latency_ms.size(); ++i) {
    sum += latency_ms[i];
    if (i > 0) changes += std::abs(latency_ms[i] - latency_ms[i - 1]);
  }
  LatencySummary summary{.mean_ms = sum / static_cast<double>(sorted.size()),
                         .p50_ms = quantile_of_sorted(sorted, 0.5),
                         .p90_ms = quantile_of_sorted(sorted, 0.9),
                         .p99_ms = quantile_of_sorted(sorted, 0.99),
                         .p99_9_ms = quantile_of_sorted(sorted, 0.999),
                         .max_ms = sorted.back()};
  if (sorted.size() > 1) summary.jitter_ms = changes / static_cast<double>(sorted.size() - 1);
  if (sorted.size() < kFramesOfDrift) return summary;
  const std::size_t fifth = sorted.size() / kFifths;
  const double first = median_of(latency_ms.first(fifth)), last = median_of(latency_ms.last(fifth));
  if (first > 0) summary.drift = (last - first) / first;
  return summary;
}

void check_latency(const LatencyRecord& record, const std::string& place) {
  const std::size_t frames = record.frame.size();
  if (frames == 0) fail("the latency of {} has no frames", place);
  for (const std::size_t entries : {record.arrived_ms.size(), record.latency_ms.size(), record.decode_ms.size(),
                                    record.queue_ms.size(), record.device_ms.size(), record.encode_ms.size()})
    if (entries != frames) fail("the latency of {} has a column of {} entries for {} frames", place, entries, frames);
  for (std::size_t i = 0; i < frames; ++i) {
    if (i > 0 && record.frame[i] <= record.frame[i - 1])
      fail("frame {} of the latency of {} comes behind frame {}", record.frame[i], place, record.frame[i - 1]);
    const double parts = record.decode_ms[i] + record.queue_ms[i] + record.device_ms[i] + record.encode_ms[i];
    if (std::abs(parts - record.latency_ms[i]) > 0.01 + 1e-6 * record.latency_ms[i])
      fail("the latency of frame {} of {} is {} ms, but its parts add up to {} ms", record.frame[i], place,
           record.latency_ms[i], parts);
  }
  if (record.came != record.shown + record.dropped)
    fail("of {} {} frames came, but {} were shown and {} dropped", place, record.came, record.shown, record.dropped);
  if (record.shown < std::ssize(record.frame) || record.frame.back() >= record.came)
    fail("the latency of {} has {} frames up to number {}, but {} came and {} were shown", place, frames,
         record.frame.back(), record.came, record.shown);
  if (record.repeated > record.shown || std::ssize(record.repeated_frames) > record.repeated)
    fail("of {} {} frames were repeated and {} shown, and {} are named", place, record.repeated, record.shown,
         record.repeated_frames.size());
  for (const std::int64_t repeated : record.repeated_frames)
    if (!std::ranges::binary_search(record.frame, repeated))
      fail("the latency of {} names frame {} as repeated, which is none of its frames", place, repeated);
}

LatencyLog::LatencyLog(std::size_t most) : frames_(std::clamp<std::size_t>(most, 1, kMost)) {}

void LatencyLog::add(const FrameTimes& times) {
  frames_[static_cast<std::size_t>(shown_) % frames_.size()] = {.frame = times.frame,
                                                                .arrived_us = to_us(times.arrived_ms),
                                                                .decode_us = part_us(times.decode_ms),
                                                                .queue_us = part_us(times.queue_ms),
                                                                .device_us = part_us(times.device_ms),
                                                                .encode_us = part_us(times.encode_ms),
                                                                .repeated = times.repeated};
  ++shown_;
  if (times.repeated) ++repeated_;
}

LatencyRecord LatencyLog::record(std::optional<double> input_fps, bool drops, double seconds) const {
  LatencyRecord record{.input_fps = input_fps,
                       .drops = drops,
                       .came = shown_ + dropped_,
                       .shown = shown_,
                       .dropped = dropped_,
                       .repeated = repeated_,
                       .seconds = seconds};
  const std::int64_t kept = std::min(shown_, std::ssize(frames_));
  for (std::int64_t i = shown_ - kept; i < shown_; ++i) {
    const Packed& packed = frames_[static_cast<std::size_t>(i) % frames_.size()];
    const std::int64_t latency_us =
        std::int64_t{packed.decode_us} + packed.queue_us + packed.device_us + packed.encode_us;
    record.frame.push_back(packed.frame);
    record.arrived_ms.push_back(to_ms(packed.arrived_us));
    record.latency_ms.push_back(to_ms(latency_us));
    record.decode_ms.push_back(to_ms(packed.decode_us));
    record.queue_ms.push_back(to_ms(packed.queue_us));
    record.device_ms.push_back(to_ms(packed.device_us));
    record.encode_ms.push_back(to_ms(packed.encode_us));
    if (packed.repeated) record.repeated_frames.push_back(packed.frame);
  }
  record.statistics = summarize_latency(record.latency_ms);
  return record;
}

}  // namespace headroom
