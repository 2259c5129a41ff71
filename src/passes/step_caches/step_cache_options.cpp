#include "passes/step_caches/step_cache_options.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/switch_argument.hpp"
#include "base/text/list.hpp"

namespace headroom {
namespace {

constexpr std::string_view kDecidingCaches[] = {"fbcache", "teacache"};  // by data that the network computes
constexpr std::string_view kStepCaches[] = {"fbcache", "teacache", "meancache"};
constexpr std::string_view kScheduleKey = ":schedule=";
constexpr double kMaxThreshold = 100;
constexpr std::int64_t kMaxSteps = 10'000;
constexpr std::size_t kMostCoefficients = 8;

/// The argument of a step cache.
class Argument : public SwitchArgument {
 public:
  using SwitchArgument::SwitchArgument;

  [[nodiscard]] double threshold() const {
    const std::optional<double> number = real(head());
    if (!number || !(*number > 0 && *number <= kMaxThreshold))
      refuse("the threshold is '{}', expected a number over 0 and up to {}", head(), kMaxThreshold);
    return *number;
  }

  /// "1/0": the coefficients of a polynomial.
  [[nodiscard]] std::vector<double> coefficients(std::string_view value) const {
    std::vector<double> numbers;
    for (std::size_t at = 0; at <= value.size() && numbers.size() <= kMostCoefficients;) {
      const std::size_t end = std::min(value.find('/', at), value.size());
      const std::optional<double> number = real(value.substr(at, end - at));
      if (!number || !std::isfinite(*number)) break;
      numbers.push_back(*number);
      if (end == value.size() && numbers.size() <= kMostCoefficients) return numbers;
      at = end + 1;
    }
    refuse("fit is '{}', expected up to {} numbers with / between them: a polynomial, the highest power first", value,
           kMostCoefficients);
  }

  [[nodiscard]] std::string schedule(std::string_view value) const {
    if (value.empty() || value.find_first_not_of("01") != std::string_view::npos || value.front() != '1')
      refuse(
          "the schedule is '{}', expected a digit for each step, 1 where it is computed and 0 where it is reused, the "
          "first of them 1",
          value);
    return std::string(value);
  }
};

bool has_schedule(std::string_view argument) { return argument.find(kScheduleKey) != std::string_view::npos; }

}  // namespace

StepCacheOptions parse_step_cache(std::string_view switch_name, std::string_view argument, StepCacheOptions defaults) {
  const Argument text(switch_name, argument);
  StepCacheOptions options = std::move(defaults);
  options.threshold = text.threshold();
  std::vector<std::pair<std::string, Argument::Read>> readers = {
      {"warmup", [&](std::string_view value) { options.warmup = text.whole("warmup", value, 1, kMaxSteps); }},
      {"last", [&](std::string_view value) { options.last = text.whole("last", value, 0, kMaxSteps); }},
      {"run", [&](std::string_view value) { options.run = text.whole("run", value, 1, kMaxSteps); }},
      {"taylor", [&](std::string_view value) { options.forecasts = text.whole("taylor", value, 0, 1) == 1; }},
      {"schedule", [&](std::string_view value) { options.schedule = text.schedule(value); }},
  };
  if (!options.fit.empty())
    readers.emplace_back("fit", [&](std::string_view value) { options.fit = text.coefficients(value); });
  text.read_keys(readers);
  return options;
}

VelocityCacheOptions parse_velocity_cache(std::string_view switch_name, std::string_view argument) {
  const Argument text(switch_name, argument);
  VelocityCacheOptions options{.computed = text.whole("the number of steps computed", text.head(), 1, kMaxSteps)};
  text.read_keys({{"schedule", [&](std::string_view value) { options.schedule = text.schedule(value); }}});
  return options;
}

std::vector<bool> spread_steps(std::int64_t computed, std::int64_t steps) {
  std::vector<bool> is_computed(static_cast<std::size_t>(steps), false);
  const std::int64_t most = std::min(computed, steps);
  is_computed.front() = true;
  // Halves are rounded up. No two steps coincide, as there are at most `steps`.
  for (std::int64_t i = 1; i < most; ++i)
    is_computed[static_cast<std::size_t>((2 * i * (steps - 1) + most - 1) / (2 * (most - 1)))] = true;
  return is_computed;
}

std::vector<bool> steps_of_schedule(std::string_view schedule, std::int64_t steps) {
  std::vector<bool> computed;
  for (std::size_t step = 0; step < static_cast<std::size_t>(steps); ++step)
    computed.push_back(schedule[step % schedule.size()] == '1');
  return computed;
}

bool has_step_cache(const SwitchSet& switches) {
  return std::ranges::any_of(kStepCaches, [&](auto name) { return switches.has(name); });
}

std::string cache_that_decides(const SwitchSet& switches) {
  for (const std::string_view name : kDecidingCaches)
    if (const auto argument = switches.argument(name); argument && !has_schedule(*argument))
      return fmt::format("{}={}", name, *argument);
  return {};
}

bool has_forced_decisions(const SwitchSet& switches) {
  return std::ranges::any_of(kDecidingCaches, [&](std::string_view name) {
    const auto argument = switches.argument(name);
    return argument && has_schedule(*argument);
  });
}

std::string with_schedule(std::string_view list, std::string_view schedule) {
  std::vector<std::string> items = split_list(list, "switches");
  bool is_said = false;
  for (std::string& item : items) {
    const std::string_view name = std::string_view(item).substr(0, item.find('='));
    if (std::ranges::find(kStepCaches, name) == std::end(kStepCaches)) continue;
    item += fmt::format("{}{}", kScheduleKey, schedule);
    is_said = true;
  }
  if (!is_said)
    fail_usage("--cache-schedule {}: there is no step cache among the switches, which are {}", schedule,
               fmt::join(kStepCaches, ", "));
  return fmt::format("{}", fmt::join(items, ","));
}

std::string without_schedule(std::string_view list) {
  std::vector<std::string> items = split_list(list, "switches");
  for (std::string& item : items) {
    if (std::ranges::find(kStepCaches, item.substr(0, item.find('='))) == std::end(kStepCaches)) continue;
    const std::size_t begin = item.find(kScheduleKey);
    if (begin == std::string::npos) continue;
    const std::size_t end = std::min(item.find(':', begin + 1), item.size());
    item.erase(begin, end - begin);
  }
  return fmt::format("{}", fmt::join(items, ","));
}

}  // namespace headroom
