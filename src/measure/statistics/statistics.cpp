#include "measure/statistics/statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <cmath>
#include <cstddef>

#include "base/error.hpp"
#include "base/text/format.hpp"
#include "measure/statistics/bootstrap.hpp"

namespace headroom {
namespace {

void check_finite(std::span<const double> values) {
  if (values.empty()) fail("there are no trials to summarize; at least one is needed");
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) fail("trial {} of {} is {}; trials must be finite", i + 1, values.size(), values[i]);
  }
}

void check_positive(std::span<const double> values) {
  check_finite(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] <= 0) fail("trial {} of {} is {}; a ratio needs times over zero", i + 1, values.size(), values[i]);
  }
}

bool is_enough(const std::vector<double>& trials) { return std::ssize(trials) >= kFewestForInterval; }

std::optional<Interval> interval_of_sorted(const std::vector<double>& sorted, const Bootstrap& bootstrap) {
  if (!is_enough(sorted)) return std::nullopt;
  MedianResampler resampler(sorted);
  IndexStream stream(bootstrap.seed, 0);
  return percentile_interval(bootstrap.resamples, [&] { return resampler.draw(stream); });
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

std::optional<Interval> bootstrap_median_interval(std::span<const double> trials, const Bootstrap& bootstrap) {
  check_finite(trials);
  return interval_of_sorted(sorted_copy(trials), bootstrap);
}

std::optional<Interval> exact_median_interval(std::span<const double> values) {
  check_finite(values);
  const std::vector<double> sorted = sorted_copy(values);
  const boost::math::binomial below_median(static_cast<double>(sorted.size()), 0.5);
  // The largest k with P(fewer than k values lie below the median) <= 2.5%.
  std::size_t k = 0;
  while (2 * (k + 1) <= sorted.size() && cdf(below_median, static_cast<double>(k)) <= 0.025) ++k;
  if (k == 0) return std::nullopt;
  return Interval{sorted[k - 1], sorted[sorted.size() - k]};
}

Summary summarize(std::span<const double> trials, const Bootstrap& bootstrap) {
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
  summary.median_interval = interval_of_sorted(sorted, bootstrap);
  apply_tukey_fences(sorted, summary);
  return summary;
}

Estimate ratio_with_interval(std::span<const double> base_trials, std::span<const double> new_trials,
                             const Bootstrap& bootstrap) {
  check_positive(base_trials);
  check_positive(new_trials);
  const std::vector<double> base = sorted_copy(base_trials);
  const std::vector<double> changed = sorted_copy(new_trials);
  Estimate ratio{quantile_of_sorted(base, 0.5) / quantile_of_sorted(changed, 0.5), std::nullopt};
  if (is_enough(base) && is_enough(changed)) {
    MedianResampler base_medians(base), new_medians(changed);
    IndexStream base_stream(bootstrap.seed, 0), new_stream(bootstrap.seed, 1);
    ratio.interval = percentile_interval(bootstrap.resamples,
                                         [&] { return base_medians.draw(base_stream) / new_medians.draw(new_stream); });
  }
  return ratio;
}

}  // namespace headroom
