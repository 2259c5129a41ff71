#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// A 95% confidence interval.
struct Interval {
  double low = 0;
  double high = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// A value with its 95% interval; the interval is absent if the data cannot give one.
struct Estimate {
  double value = 0;
  std::optional<Interval> interval;
};

/// What an interval shows of its value against a reference value: that of a factor against 1, of a difference against
/// 0. The one rule of "faster", "slower" and "no difference beyond noise".
enum class Finding : std::uint8_t { kInconclusive, kBelow, kAbove };
/// kInconclusive if the interval holds `reference`, or if there is no interval.
[[nodiscard]] Finding finding_of(const std::optional<Interval>& interval, double reference);

/// The fewest trials that give a 95% interval of their median without an assumption about their distribution. The
/// smallest and the largest of 5 enclose the median with 94%, of 6 with 97%.
inline constexpr std::int64_t kFewestForInterval = 6;
/// "3 trials give no 95% interval, 6 would"; `trials` is below kFewestForInterval.
[[nodiscard]] std::string too_few_for_interval(std::int64_t trials, std::string_view trial = "trial");

/// Parameters of a bootstrap. The seed is fixed, so the same trials give the same interval on every machine.
struct Bootstrap {
  int resamples = 10'000;
  std::uint64_t seed = 0x9E3779B97F4A7C15U;
};

/// The statistics shown for a series of trials. Every figure has the unit of the trials.
struct Summary {
  std::int64_t n = 0;
  double median = 0;
  double q1 = 0;
  double q3 = 0;
  double mean = 0;
  std::optional<double> stddev;  ///< sample standard deviation (n - 1); absent for a single trial
  double min = 0;
  double max = 0;
  double p95 = 0;
  double p99 = 0;
  std::optional<Interval> median_interval;  ///< 95%, median_interval(); absent below kFewestForInterval
  std::int64_t outliers_mild = 0;           ///< beyond 1.5 but within 3 interquartile ranges of the quartiles
  std::int64_t outliers_severe = 0;         ///< beyond 3 interquartile ranges
  double trimmed_mean = 0;  ///< of the n - outliers_mild - outliers_severe other trials; shown only, decides nothing
  friend bool operator==(const Summary&, const Summary&) = default;
};

/// The `probability` quantile of `sorted` (ascending, not empty) by linear interpolation between the order statistics
/// around (n - 1) * probability. This is type 7 of Hyndman and Fan, "Sample quantiles in statistical packages", The
/// American Statistician 50 (1996), the default of NumPy and R. Throws std::logic_error if `sorted` is empty or
/// `probability` is outside [0, 1].
[[nodiscard]] double quantile_of_sorted(std::span<const double> sorted, double probability);

/// The median: quantile 0.5, the mean of the two middle values for even n. Throws Error if `values` is empty or not
/// finite.
[[nodiscard]] double median(std::span<const double> values);

/// 95% interval of the median: between the exact interval of at least 95% and the next narrower one, interpolated so
/// that it covers 95% (Hettmansperger and Sheather, "Confidence intervals based on interpolated order statistics",
/// Statistics and Probability Letters 4, 1986). It covers 94% to 96% for normal, heavy-tailed and skewed trials, from
/// 6 on, while the percentile bootstrap covers 87% for 7 trials. For many trials both are equally wide. Absent below
/// kFewestForInterval. Throws Error if `trials` is empty or holds a NaN or infinity.
[[nodiscard]] std::optional<Interval> median_interval(std::span<const double> trials);

/// Distribution-free interval of the median with at least 95% coverage, from the k-th smallest to the k-th largest
/// value. k follows from the binomial distribution of how many values lie below the median (Conover, "Practical
/// Nonparametric Statistics", 1999, section 3.2). Absent below kFewestForInterval. Throws Error if `values` is empty
/// or holds a NaN or infinity.
[[nodiscard]] std::optional<Interval> exact_median_interval(std::span<const double> values);

/// All statistics of `trials`, in any order. Outliers are classified by the fences of Tukey, "Exploratory Data
/// Analysis", 1977. Throws Error if `trials` is empty or holds a NaN or infinity.
[[nodiscard]] Summary summarize(std::span<const double> trials);

/// base / changed of two medians over zero. The intervals combine as independent errors of the logarithms (Zou and
/// Donner, "Construction of confidence limits about effect measures", Statistics in Medicine 27, 2008); without an
/// interval if either has none.
[[nodiscard]] Estimate ratio_of(const Estimate& base, const Estimate& changed);

}  // namespace headroom
