#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace headroom {

/// How a bar says how much is done: "12/28", or "42%" where a step means nothing to people.
enum class ProgressUnit : std::uint8_t { kSteps, kPercent };

/// One line of progress: "label  [####----]  12/28  1.3 s, 1.7 s left", cut to `columns`. The estimate of what remains
/// assumes an even pace and is left out before the first step.
[[nodiscard]] std::string format_progress(std::string_view label, std::int64_t done, std::int64_t total,
                                          double elapsed_s, int columns, ProgressUnit unit = ProgressUnit::kSteps);

/// A progress bar on a terminal, redrawn at most ten times a second. Into a pipe or file it writes nothing at all.
/// To be used from one thread.
class Progress {
 public:
  /// `total` steps are to come; `quiet` keeps the bar away even on a terminal.
  Progress(const std::string& label, std::int64_t total, bool quiet = false, int descriptor = STDERR_FILENO,
           ProgressUnit unit = ProgressUnit::kSteps);
  /// Erases the bar, unless finish() left it standing.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(std::int64_t steps = 1) { set(done_ + steps); }
  void set(std::int64_t done);
  /// Draws the last state and ends the line, so that it stays on the screen.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  void draw(Clock::time_point now);

  std::string label_;
  std::int64_t total_;
  std::int64_t done_ = 0;
  int descriptor_;
  ProgressUnit unit_;
  bool shown_;            // a terminal, and wanted
  bool on_line_ = false;  // the terminal's line now holds the bar
  Clock::time_point start_;
  Clock::time_point last_draw_;
};

}  // namespace headroom
