#include "measure/statistics/statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/error.hpp"
#include "base/text/format.hpp"
#include "measure/statistics/bootstrap_interval.hpp"
#include "measure/statistics/distributions.hpp"

namespace headroom {
namespace {

void check_finite(std::span<const double> values) {
  if (values.empty()) fail("there are no trials to summarize; at least one is needed");
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) fail("trial {} of {} is {}; trials must be finite", i + 1, values.size(), values[i]);
  }
}

/// The probability that fewer than k of n values, or more than n - k, lie below the median: that the interval from the
/// k-th smallest to the k-th largest value misses it.
double miss_probability(std::size_t n, std::size_t k) {
  if (k == 0) return 0;
  return 2 * binomial_cdf(static_cast<std::int64_t>(n), 0.5, static_cast<std::int64_t>(k) - 1);
}

constexpr double kMissed = 0.05;  // by a 95% interval

/// The largest k whose interval misses the median in at most 5%; 0 if there is none.
std::size_t largest_exact(std::size_t n) {
  std::size_t k = 0;
  while (2 * (k + 1) <= n && miss_probability(n, k + 1) <= kMissed) ++k;
  return k;
}

std::optional<Interval> interval_of_sorted(const std::vector<double>& sorted) {
  if (std::ssize(sorted) < kFewestForInterval) return std::nullopt;
  const std::size_t n = sorted.size(), k = largest_exact(n);
  HR_CHECK_LT(2 * k, n);
  const double wide = miss_probability(n, k), narrow = miss_probability(n, k + 1);
  const double share = (kMissed - wide) / (narrow - wide);
  const auto values = static_cast<double>(n), rank = static_cast<double>(k);
  // exact for symmetric exponential distributions
  const double weight = (values - rank) * share / (rank + (values - 2 * rank) * share);
  const auto between = [&](double outer, double inner) { return outer + weight * (inner - outer); };
  return Interval{between(sorted[k - 1], sorted[k]), between(sorted[n - k], sorted[n - k - 1])};
}

// Clamped, because rounding may move the mean of equal values just beyond them and make a constant series look
// spread.
double mean_of_sorted(std::span<const double> sorted) {
  double sum = 0;
  for (const double value : sorted) sum += value;
  return std::clamp(sum / static_cast<double>(sorted.size()), sorted.front(), sorted.back());
}

double sample_stddev(std::span<const double> values, double mean) {
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

// Computes the outlier counts and the trimmed mean from the quartiles, which must already be set.
void apply_tukey_fences(std::span<const double> sorted, Summary& summary) {
  const double range = summary.q3 - summary.q1;
  const auto outside = [&](double value, double fence) {
    return value < summary.q1 - fence * range || value > summary.q3 + fence * range;
  };
  std::vector<double> inside;
  for (const double value : sorted) {
    if (outside(value, 3.0)) {
      ++summary.outliers_severe;
    } else if (outside(value, 1.5)) {
      ++summary.outliers_mild;
    } else {
      inside.push_back(value);
    }
  }
  // Never empty: the fences enclose the quartiles, and between those lies at least one order statistic when n > 2, all
  // when n <= 2.
  summary.trimmed_mean = mean_of_sorted(inside);
}

}  // namespace

Finding finding_of(const std::optional<Interval>& interval, double reference) {
  if (interval && interval->low > reference) return Finding::kAbove;
  return interval && interval->high < reference ? Finding::kBelow : Finding::kInconclusive;
}

std::string too_few_for_interval(std::int64_t trials, std::string_view trial) {
  return fmt::format("{} {} no 95% interval, {} would", format_count(trials, trial), trials == 1 ? "gives" : "give",
                     kFewestForInterval);
}

double quantile_of_sorted(std::span<const double> sorted, double probability) {
  HR_CHECK_LT(std::size_t{0}, sorted.size());
  HR_CHECK(probability >= 0 && probability <= 1);
  const double position = static_cast<double>(sorted.size() - 1) * probability;
  const auto below = static_cast<std::size_t>(position);
  if (below + 1 >= sorted.size()) return sorted.back();
  const double fraction = position - static_cast<double>(below);
  return sorted[below] + fraction * (sorted[below + 1] - sorted[below]);
}

double median(std::span<const double> values) {
  check_finite(values);
  return quantile_of_sorted(sorted_copy(values), 0.5);
}

std::optional<Interval> median_interval(std::span<const double> trials) {
  check_finite(trials);
  return interval_of_sorted(sorted_copy(trials));
}

std::optional<Interval> exact_median_interval(std::span<const double> values) {
  check_finite(values);
  const std::vector<double> sorted = sorted_copy(values);
  const std::size_t k = largest_exact(sorted.size());
  if (k == 0) return std::nullopt;
  return Interval{sorted[k - 1], sorted[sorted.size() - k]};
}

Summary summarize(std::span<const double> trials) {
  check_finite(trials);
  const std::vector<double> sorted = sorted_copy(trials);
  Summary summary;
  summary.n = static_cast<std::int64_t>(sorted.size());
  summary.median = quantile_of_sorted(sorted, 0.5);
  summary.q1 = quantile_of_sorted(sorted, 0.25);
  summary.q3 = quantile_of_sorted(sorted, 0.75);
  summary.mean = mean_of_sorted(sorted);
  if (sorted.size() > 1) summary.stddev = sample_stddev(sorted, summary.mean);
  summary.min = sorted.front();
  summary.max = sorted.back();
  summary.p95 = quantile_of_sorted(sorted, 0.95);
  summary.p99 = quantile_of_sorted(sorted, 0.99);
  summary.median_interval = interval_of_sorted(sorted);
  apply_tukey_fences(sorted, summary);
  return summary;
}

Estimate ratio_of(const Estimate& base, const Estimate& changed) {
  Estimate ratio{base.value / changed.value, std::nullopt};
  if (base.interval && changed.interval) {
    const double down =
        std::hypot(std::log(base.value / base.interval->low), std::log(changed.interval->high / changed.value));
    const double up =
        std::hypot(std::log(base.interval->high / base.value), std::log(changed.value / changed.interval->low));
    ratio.interval = Interval{ratio.value * std::exp(-down), ratio.value * std::exp(up)};
  }
  return ratio;
}

}  // namespace headroom
