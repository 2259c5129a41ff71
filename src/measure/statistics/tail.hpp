#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "measure/statistics/effect.hpp"

/// The 99th percentile: what can be said of it, and from how many trials on.
namespace headroom {

/// Fewer trials than this say nothing of a p99: it would be one of the two slowest of them.
inline constexpr std::int64_t kTrialsOfP99 = 100;

/// Why so few trials say nothing of a p99, one clause.
[[nodiscard]] std::string too_few_for_p99(std::int64_t trials);

/// 95% bounds of the p99 of a distribution, whatever its shape; an end is absent where no trial bounds it.
struct TailBounds {
  std::optional<double> low;
  std::optional<double> high;
};
/// Order statistics, chosen by the binomial distribution of how many trials lie below the p99 (Conover, "Practical
/// Nonparametric Statistics", 1999, section 3.2). The upper end takes trials_to_bound_p99(). Trials are taken as
/// independent. Throws Error where there are none or one is not finite.
[[nodiscard]] TailBounds p99_bounds(std::span<const double> trials);
/// The fewest trials whose largest bounds the p99 with 97.5% confidence: 368.
[[nodiscard]] std::int64_t trials_to_bound_p99();

/// The p99 of the trials of all processes together: quantile_of_sorted() of 0.99.
[[nodiscard]] double p99_of(std::span<const std::vector<double>> processes);

/// How much longer the p99 is, of all trials of each side together. The interval combines the p99_bounds() of both
/// sides with what the processes differ by, which is what `of_median`, the effect on the medians of the same trials,
/// has for an interval; all are taken as independent errors. There is none, and `limit` says why, where `of_median` has
/// none or a side has too few trials. p is Mann and Whitney's on the p99s of processes, so that a single slow process
/// is no evidence; of one process a side that of a normal distribution with such an interval.
[[nodiscard]] Effect p99_effect(std::span<const std::vector<double>> base, std::span<const std::vector<double>> changed,
                                const Effect& of_median);

}  // namespace headroom
