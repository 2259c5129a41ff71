#include "measure/statistics/tail.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "base/error.hpp"
#include "base/text/format.hpp"
#include "measure/statistics/distributions.hpp"
#include "measure/statistics/mann_whitney.hpp"

namespace headroom {
namespace {

constexpr double kP99 = 0.99;
constexpr double kErrorOfAnEnd = 0.025;

std::vector<double> sorted_trials(std::span<const std::vector<double>> processes) {
  std::vector<double> all;
  for (const std::vector<double>& trials : processes) all.insert(all.end(), trials.begin(), trials.end());
  std::ranges::sort(all);
  return all;
}

std::vector<double> p99_of_each(std::span<const std::vector<double>> processes) {
  std::vector<double> tails;
  for (const std::vector<double>& trials : processes) {
    std::vector<double> sorted = trials;
    std::ranges::sort(sorted);
    tails.push_back(quantile_of_sorted(sorted, kP99));
  }
  return tails;
}

double p_of_normal(double log_ratio, double reach) {
  if (reach <= 0) return log_ratio == 0 ? 1 : 0;
  return two_sided_normal_p(std::abs(log_ratio) / reach * normal_quantile(1 - kErrorOfAnEnd));
}

}  // namespace

std::string too_few_for_p99(std::int64_t trials) {
  return fmt::format("{} {} little of the p99, {} would say it", format_count(trials, "trial"),
                     trials == 1 ? "says" : "say", kTrialsOfP99);
}

std::int64_t trials_to_bound_p99() {
  return static_cast<std::int64_t>(std::ceil(std::log(kErrorOfAnEnd) / std::log(kP99)));
}

TailBounds p99_bounds(std::span<const double> trials) {
  if (trials.empty()) fail("there are no trials to bound a p99 by; at least one is needed");
  for (const double trial : trials)
    if (!std::isfinite(trial)) fail("a trial is {}; trials must be finite", trial);
  std::vector<double> sorted(trials.begin(), trials.end());
  std::ranges::sort(sorted);
  const std::int64_t n = std::ssize(sorted);
  TailBounds bounds;
  // The number of trials below the p99 is binomial.
  for (std::int64_t rank = n; rank >= 1 && !bounds.low; --rank)
    if (binomial_cdf(n, kP99, rank - 1) <= kErrorOfAnEnd) bounds.low = sorted[static_cast<std::size_t>(rank - 1)];
  for (std::int64_t rank = n; rank >= 1; --rank) {
    if (binomial_tail(n, kP99, rank - 1) > kErrorOfAnEnd) break;
    bounds.high = sorted[static_cast<std::size_t>(rank - 1)];
  }
  return bounds;
}

double p99_of(std::span<const std::vector<double>> processes) {
  return quantile_of_sorted(sorted_trials(processes), kP99);
}

Effect p99_effect(std::span<const std::vector<double>> base, std::span<const std::vector<double>> changed,
                  const Effect& of_median) {
  const std::vector<double> base_trials = sorted_trials(base), new_trials = sorted_trials(changed);
  const double base_ms = quantile_of_sorted(base_trials, kP99), new_ms = quantile_of_sorted(new_trials, kP99);
  Effect effect{.ratio = new_ms / base_ms,
                .interval = {},
                .p = 1,
                .base_processes = of_median.base_processes,
                .new_processes = of_median.new_processes,
                .paired = of_median.paired};
  const std::int64_t fewest = std::min(std::ssize(base_trials), std::ssize(new_trials));
  const TailBounds of_base = p99_bounds(base_trials), of_new = p99_bounds(new_trials);
  if (!of_base.low || !of_base.high || !of_new.low || !of_new.high) {
    effect.limit = fmt::format("the p99 of {} has no upper bound; that takes {} on each side",
                               format_count(fewest, "trial"), trials_to_bound_p99());
    return effect;
  }
  if (!of_median.interval) {
    effect.limit = of_median.limit.empty() ? "too few processes to say how they differ" : of_median.limit;
    return effect;
  }
  const double processes_down = std::log(of_median.ratio / of_median.interval->low);
  const double processes_up = std::log(of_median.interval->high / of_median.ratio);
  const double down = std::hypot(std::log(new_ms / *of_new.low), std::log(*of_base.high / base_ms), processes_down);
  const double up = std::hypot(std::log(*of_new.high / new_ms), std::log(base_ms / *of_base.low), processes_up);
  effect.interval = Interval{effect.ratio * std::exp(-down), effect.ratio * std::exp(up)};
  effect.p = base.size() == 1 && changed.size() == 1 ? p_of_normal(std::log(effect.ratio), effect.ratio > 1 ? down : up)
                                                     : mann_whitney(p99_of_each(base), p99_of_each(changed)).p;
  return effect;
}

}  // namespace headroom
