#include "cli/streams/live_view.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kMostSteps = 100;
constexpr std::int64_t kRateFrames = 60;  // for the frame rate

void require(const char* what, double value, bool is_sensible, const char* expected) {
  if (!is_sensible) fail_usage("{} is {}, expected {}", what, value, expected);
}

void require_taken(const char* what, bool is_taken, bool has_changed) {
  if (has_changed && !is_taken) fail_usage("this stream takes no {}", what);
}

}  // namespace

LiveView::LiveView(StreamFacts facts, StreamControls controls)
    : facts_(std::move(facts)),
      controls_(std::move(controls)),
      goal_(controls_),
      input_(static_cast<std::size_t>(facts_.width * facts_.height * 3)),
      output_(input_.size()) {}

void LiveView::show(const FrameTimes& times, std::span<const std::uint8_t> input,
                    std::span<const std::uint8_t> output) {
  HR_CHECK_EQ(input.size(), input_.size());
  HR_CHECK_EQ(output.size(), output_.size());
  {
    const std::lock_guard lock(mutex_);
    ++serial_;
    const auto place = static_cast<std::size_t>(serial_) % kRemembered;
    times_[place] = times;
    shown_at_[place] = Clock::now();
    ++counters_.shown;
    if (times.repeated) ++counters_.repeated;
    if (const std::int64_t frames = std::min(serial_ - 1, kRateFrames); frames > 0) {
      const auto first = static_cast<std::size_t>(serial_ - frames) % kRemembered;
      const std::chrono::duration<double> took = shown_at_[place] - shown_at_[first];
      counters_.fps = static_cast<double>(frames) / std::max(took.count(), 1e-9);
    }
    if (watching_ != 0) {
      std::ranges::copy(input, input_.begin());
      std::ranges::copy(output, output_.begin());
      pixels_serial_ = serial_;
    }
  }
  changed_.notify_all();
}

void LiveView::drop() {
  const std::lock_guard lock(mutex_);
  ++counters_.dropped;
}

void LiveView::end() {
  {
    const std::lock_guard lock(mutex_);
    counters_.ended = true;
  }
  changed_.notify_all();
}

std::optional<StreamControls> LiveView::take_wanted() {
  const std::lock_guard lock(mutex_);
  return std::exchange(wanted_, std::nullopt);
}

void LiveView::answer(const StreamControls& now, std::string obstacle) {
  const std::lock_guard lock(mutex_);
  controls_ = now;
  if (!wanted_) goal_ = now;
  obstacle_ = std::move(obstacle);
}

bool LiveView::wait_for_frame(std::int64_t after_serial, std::chrono::milliseconds at_most, Frame& frame) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, at_most, [&] { return pixels_serial_ > after_serial || counters_.ended; });
  if (pixels_serial_ <= after_serial) return false;
  frame.serial = pixels_serial_;
  frame.input = input_;
  frame.output = output_;
  return true;
}

LiveView::Times LiveView::times_after(std::int64_t serial) const {
  Times times;
  times.frames.reserve(kRemembered);  // before the lock: the stream never waits for an allocation
  const std::lock_guard lock(mutex_);
  times.serial = serial_;
  constexpr auto kMost = static_cast<std::int64_t>(kRemembered);
  for (std::int64_t i = std::max(serial, std::max<std::int64_t>(serial_ - kMost, 0)) + 1; i <= serial_; ++i)
    times.frames.push_back(times_[static_cast<std::size_t>(i) % kRemembered]);
  return times;
}

StreamCounters LiveView::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

StreamControls LiveView::controls() const {
  const std::lock_guard lock(mutex_);
  return controls_;
}

StreamControls LiveView::goal() const {
  const std::lock_guard lock(mutex_);
  return goal_;
}

std::string LiveView::obstacle() const {
  const std::lock_guard lock(mutex_);
  return obstacle_;
}

void LiveView::want(const StreamControls& wish) {
  require("steps", static_cast<double>(wish.steps), wish.steps >= 1 && wish.steps <= kMostSteps, "1 to 100");
  require("strength", wish.strength, wish.strength > 0 && wish.strength <= 1, "more than 0 to 1");
  require("guidance_scale", wish.guidance_scale, wish.guidance_scale >= 0 && wish.guidance_scale <= 100, "0 to 100");
  require("similarity", wish.similarity, wish.similarity >= 0 && wish.similarity < 1, "0 to less than 1");
  const std::lock_guard lock(mutex_);
  const StreamControls& now = goal_;
  require_taken("prompt", facts_.takes_prompt, wish.prompt != now.prompt);
  require_taken("negative prompt", facts_.takes_negative_prompt, wish.negative_prompt != now.negative_prompt);
  require_taken("steps", facts_.takes_steps, wish.steps != now.steps);
  require_taken("strength", facts_.takes_strength, wish.strength != now.strength);
  require_taken("guidance scale", facts_.takes_guidance, wish.guidance_scale != now.guidance_scale);
  require_taken("similarity", facts_.takes_similarity, wish.similarity != now.similarity);
  require_taken("seed", facts_.takes_seed, wish.seed != now.seed);
  require_taken("pause", facts_.takes_pause, wish.paused != now.paused);
  goal_ = wish;
  wanted_ = wish;
}

}  // namespace headroom
