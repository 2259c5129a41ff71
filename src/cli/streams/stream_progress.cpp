#include "cli/streams/stream_progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/output.hpp"
#include "base/text/format.hpp"
#include "measure/statistics/statistics.hpp"
#include "measure/tables/table.hpp"

namespace headroom {
namespace {

constexpr auto kOnTerminal = std::chrono::milliseconds(250);
constexpr auto kInLog = std::chrono::seconds(5);
constexpr std::int64_t kLately = 300;  // frames for the displayed latencies

}  // namespace

StreamProgress::StreamProgress(bool quiet)
    : quiet_(quiet), is_terminal_(isatty(STDERR_FILENO) != 0), last_(Clock::now()) {}

void StreamProgress::show(std::int64_t shown, std::int64_t dropped, const LiveView& view) {
  const Clock::time_point now = Clock::now();
  if (quiet_ || shown == 0 || now - last_ < (is_terminal_ ? Clock::duration(kOnTerminal) : Clock::duration(kInLog)))
    return;
  last_ = now;
  std::vector<double> latencies;
  for (const FrameTimes& times : view.times_after(shown - kLately).frames) latencies.push_back(times.latency_ms);
  if (latencies.empty()) return;
  std::ranges::sort(latencies);
  const std::string line = fmt::format(
      "{}, {:.1f} in a second, from in to out {} (p99 {}){}", format_count(shown, "frame"), view.counters().fps,
      format_ms(quantile_of_sorted(latencies, 0.5)), format_ms(quantile_of_sorted(latencies, 0.99)),
      dropped > 0 ? fmt::format(", {} dropped", dropped) : "");
  // Written directly, because write_output() removes control characters.
  const std::string text = is_terminal_ ? "\r\x1b[K" + line : line + "\n";
  on_line_ = is_terminal_;
  static_cast<void>(!write(STDERR_FILENO, text.data(), text.size()));
}

void StreamProgress::finish() {
  if (!on_line_) return;
  on_line_ = false;
  static_cast<void>(!write(STDERR_FILENO, "\n", 1));
}

}  // namespace headroom
