#include "base/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/printable.hpp"

namespace headroom {
namespace {

constexpr std::chrono::milliseconds kRedrawInterval{100};
constexpr std::int64_t kBarWidth = 24;

int columns_of(int descriptor) {
  winsize size{};
  const bool known = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

void print(int descriptor, std::string_view text) {
  // A bar that cannot be drawn is no reason to fail the work that it shows.
  [[maybe_unused]] const ssize_t written = ::write(descriptor, text.data(), text.size());
}

std::string format_duration(double seconds) {
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const std::int64_t whole = std::llround(seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole % 3600 / 60);
}

}  // namespace

std::string format_progress(std::string_view label, std::int64_t done, std::int64_t total, double elapsed_s,
                            int columns, ProgressUnit unit) {
  const std::int64_t filled = total > 0 ? std::clamp<std::int64_t>(done * kBarWidth / total, 0, kBarWidth) : kBarWidth;
  const std::string amount = unit == ProgressUnit::kSteps ? fmt::format("{}/{}", done, total)
                                                          : fmt::format("{}%", total > 0 ? 100 * done / total : 100);
  std::string line = fmt::format("{}  [{:#>{}}{:->{}}]  {}  {}", label, "", filled, "", kBarWidth - filled, amount,
                                 format_duration(elapsed_s));
  if (done > 0 && done < total) {
    const double left_s = elapsed_s * static_cast<double>(total - done) / static_cast<double>(done);
    line += fmt::format(", {} left", format_duration(left_s));
  }
  // The last column stays free: some terminals wrap as soon as it is filled.
  const auto limit = static_cast<std::size_t>(std::max(columns - 1, 0));
  if (line.size() > limit) line.resize(limit);
  return line;
}

Progress::Progress(const std::string& label, std::int64_t total, bool quiet, int descriptor, ProgressUnit unit)
    : label_(printable_name(label)),
      total_(total),
      descriptor_(descriptor),
      unit_(unit),
      shown_(!quiet && ::isatty(descriptor) == 1),
      start_(Clock::now()),
      last_draw_(start_) {
  if (shown_) draw(start_);
}

Progress::~Progress() {
  if (on_line_) print(descriptor_, "\r\x1b[K");
}

void Progress::set(std::int64_t done) {
  done_ = done;
  if (!shown_) return;
  const Clock::time_point now = Clock::now();
  if (now - last_draw_ >= kRedrawInterval) draw(now);
}

void Progress::finish() {
  if (!shown_) return;
  draw(Clock::now());
  print(descriptor_, "\n");
  on_line_ = false;
  shown_ = false;
}

void Progress::draw(Clock::time_point now) {
  const double elapsed_s = std::chrono::duration<double>(now - start_).count();
  const std::string line = format_progress(label_, done_, total_, elapsed_s, columns_of(descriptor_), unit_);
  print(descriptor_, fmt::format("\r{}\x1b[K", line));
  on_line_ = true;
  last_draw_ = now;
}

}  // namespace headroom
