#include "base/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/terminal.hpp"
#include "base/text/printable.hpp"

namespace headroom {
namespace {

constexpr std::chrono::milliseconds kRedrawInterval{100};
constexpr std::chrono::seconds kLineInterval{5};
constexpr std::int64_t kBarWidth = 24;

int columns_of(int descriptor) { return static_cast<int>(terminal_columns(descriptor).value_or(80)); }

void print(int descriptor, std::string_view text) {
  // A failure to draw a bar must not fail the work.
  [[maybe_unused]] const ssize_t written = ::write(descriptor, text.data(), text.size());
}

std::string format_duration(double seconds) {
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const std::int64_t whole = std::llround(seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole % 3600 / 60);
}

std::string format_amount(std::int64_t done, std::int64_t total, ProgressUnit unit) {
  return unit == ProgressUnit::kSteps ? fmt::format("{}/{}", done, total)
                                      : fmt::format("{}%", total > 0 ? 100 * done / total : 100);
}

/// "1.3 s, 1.7 s left"
std::string format_times(std::int64_t done, std::int64_t total, double elapsed_s) {
  const std::string elapsed = format_duration(elapsed_s);
  if (done <= 0 || done >= total) return elapsed;
  const double left_s = elapsed_s * static_cast<double>(total - done) / static_cast<double>(done);
  return fmt::format("{}, {} left", elapsed, format_duration(left_s));
}

double seconds_of(Progress::Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

std::string format_progress(std::string_view label, std::int64_t done, std::int64_t total, double elapsed_s,
                            int columns, ProgressUnit unit) {
  std::string line = format_progress_line(label, done, total, elapsed_s, unit);
  // The last column is left free, because some terminals wrap when it is filled.
  const auto limit = static_cast<std::size_t>(std::max(columns - 1, 0));
  constexpr std::int64_t kShortest = 4, kAround = 4;  // brackets and blanks
  const std::int64_t width = std::min(kBarWidth, static_cast<std::int64_t>(limit) - std::ssize(line) - kAround);
  if (width >= kShortest) {  // the figures come first in a narrow terminal
    const std::int64_t filled = total > 0 ? std::clamp<std::int64_t>(done * width / total, 0, width) : width;
    line.insert(label.size(), fmt::format("  [{:#>{}}{:->{}}]", "", filled, "", width - filled));
  }
  if (line.size() > limit) line.resize(limit);
  return line;
}

std::string format_progress_line(std::string_view label, std::int64_t done, std::int64_t total, double elapsed_s,
                                 ProgressUnit unit) {
  return fmt::format("{}  {}  {}", label, format_amount(done, total, unit), format_times(done, total, elapsed_s));
}

Progress::Progress(const std::string& label, std::int64_t total, bool quiet, int descriptor, ProgressUnit unit,
                   std::function<Clock::time_point()> now)
    : label_(printable_name(label)),
      total_(total),
      descriptor_(descriptor),
      unit_(unit),
      now_(std::move(now)),
      form_(quiet                       ? Form::kNone
            : ::isatty(descriptor) == 1 ? Form::kBar
                                        : Form::kLines),
      start_(now_()),
      last_shown_(start_) {
  if (form_ == Form::kBar) draw(start_);
}

Progress::~Progress() {
  if (on_line_) erase_bar();
}

void Progress::set(std::int64_t done) {
  done_ = done;
  if (form_ == Form::kNone) return;
  const Clock::time_point now = now_();
  if (form_ == Form::kBar && now - last_shown_ >= kRedrawInterval) draw(now);
  if (form_ == Form::kLines && now - last_shown_ >= kLineInterval) print_line(now);
}

/// The interval between lines continues, since work may consist of many short pieces.
void Progress::begin(const std::string& label, std::int64_t total) {
  label_ = printable_name(label);
  total_ = total;
  done_ = 0;
  start_ = now_();
  if (form_ == Form::kBar) draw(start_);
}

void Progress::finish() {
  if (form_ == Form::kBar) {
    draw(now_());
    print(descriptor_, "\n");
    bar_descriptor = kNoBar;
  }
  on_line_ = false;
  form_ = Form::kNone;
}

void Progress::draw(Clock::time_point now) {
  const std::string line =
      format_progress(label_, done_, total_, seconds_of(now - start_), columns_of(descriptor_), unit_);
  print(descriptor_, fmt::format("\r{}\x1b[K", line));
  on_line_ = true;
  bar_descriptor = descriptor_;
  last_shown_ = now;
}

void Progress::print_line(Clock::time_point now) {
  print(descriptor_, format_progress_line(label_, done_, total_, seconds_of(now - start_), unit_) + "\n");
  last_shown_ = now;
}

}  // namespace headroom
