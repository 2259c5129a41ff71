#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace headroom {

/// How a bar shows progress: "12/28", or "42%" if single steps have no meaning to users.
enum class ProgressUnit : std::uint8_t { kSteps, kPercent };

/// One line of progress: "label  [####----]  12/28  1.3 s, 1.7 s left", cut to `columns`. The remaining time
/// assumes a constant rate and is omitted before the first step.
[[nodiscard]] std::string format_progress(std::string_view label, std::int64_t done, std::int64_t total,
                                          double elapsed_s, int columns, ProgressUnit unit = ProgressUnit::kSteps);

/// The same without the bar, for logs: "label  12/28  1.3 s, 1.7 s left".
[[nodiscard]] std::string format_progress_line(std::string_view label, std::int64_t done, std::int64_t total,
                                               double elapsed_s, ProgressUnit unit = ProgressUnit::kSteps);

/// Progress of work: on a terminal a bar, redrawn at most ten times a second; in a pipe or file a line every five
/// seconds or more. Not thread-safe.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  /// `total` is the number of steps; `quiet` suppresses all output. Tests may replace the clock.
  Progress(const std::string& label, std::int64_t total, bool quiet = false, int descriptor = STDERR_FILENO,
           ProgressUnit unit = ProgressUnit::kSteps, std::function<Clock::time_point()> now = &Clock::now);
  /// Erases the bar, unless finish() has kept it.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(std::int64_t steps = 1) { set(done_ + steps); }
  void set(std::int64_t done);
  /// Continues with other work, at zero steps, in the same line.
  void begin(const std::string& label, std::int64_t total);
  /// Draws the final state and ends the line, so that it stays on the screen.
  void finish();

 private:
  enum class Form : std::uint8_t { kNone, kBar, kLines };

  void draw(Clock::time_point now);
  void print_line(Clock::time_point now);

  std::string label_;
  std::int64_t total_;
  std::int64_t done_ = 0;
  int descriptor_;
  ProgressUnit unit_;
  std::function<Clock::time_point()> now_;
  Form form_;
  bool on_line_ = false;  // the terminal's line holds the bar
  Clock::time_point start_;
  Clock::time_point last_shown_;
};

}  // namespace headroom
