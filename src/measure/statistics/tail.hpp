#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "measure/statistics/effect.hpp"

/// The 99th percentile: its estimate, its bounds, and the number of trials that they need.
namespace headroom {

/// Least number of trials for a p99: with fewer, it would be one of the two slowest trials.
inline constexpr std::int64_t kTrialsOfP99 = 100;

/// Why that number of trials is too small for a p99, one clause.
[[nodiscard]] std::string too_few_for_p99(std::int64_t trials);

/// 95% bounds of the p99 for any distribution; an end is absent if no trial bounds it.
struct TailBounds {
  std::optional<double> low;
  std::optional<double> high;
};
/// Order statistics, chosen by the binomial distribution of how many trials lie below the p99 (Conover, "Practical
/// Nonparametric Statistics", 1999, section 3.2). The upper bound needs trials_to_bound_p99() trials. Trials are
/// assumed to be independent. Throws Error if there are none or one is not finite.
[[nodiscard]] TailBounds p99_bounds(std::span<const double> trials);
/// Least number of trials for which the largest bounds the p99 with 97.5% confidence: 368.
[[nodiscard]] std::int64_t trials_to_bound_p99();

/// The p99 of the trials of all processes together: quantile_of_sorted() of 0.99.
[[nodiscard]] double p99_of(std::span<const std::vector<double>> processes);

/// The relative increase of the p99, over all trials of each side together. The interval combines the p99_bounds() of
/// both sides with the variation between processes, as independent errors. The variation is taken from the interval
/// of `of_median`, the effect on the medians of the same trials. If `of_median` has no interval, or a side has too
/// few trials, there is none, and `limit` gives the reason. p is Mann and Whitney's on the p99s of processes, so that
/// a single slow process is no evidence. With one process on each side, p is that of a normal distribution with such
/// an interval.
[[nodiscard]] Effect p99_effect(std::span<const std::vector<double>> base, std::span<const std::vector<double>> changed,
                                const Effect& of_median);

}  // namespace headroom
