#include "measure/effect.hpp"

#include <algorithm>
#include <boost/math/constants/constants.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <cstddef>

#include "base/error.hpp"
#include "measure/mann_whitney.hpp"
#include "measure/resample.hpp"

namespace headroom {
namespace {

constexpr std::size_t kBootstrapPairs = 20;  // below, a bootstrap's interval is too narrow: it misses in over 7%
constexpr double kHalfPi = boost::math::constants::half_pi<double>();  // variance of a median over that of a mean

std::vector<double> medians_of(std::span<const std::vector<double>> processes, const char* build) {
  if (processes.empty()) fail("there are no trials of the {} build", build);
  std::vector<double> medians;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    if (processes[i].empty()) fail("process {} of the {} build has no trials", i, build);
    for (const double ms : processes[i])
      if (!std::isfinite(ms) || ms <= 0)
        fail("a time of the {} build is {} ms; a ratio needs finite times over zero", build, ms);
    medians.push_back(median(processes[i]));
  }
  return medians;
}

std::vector<double> logarithms(std::span<const double> values) {
  std::vector<double> logs(values.size());
  std::ranges::transform(values, logs.begin(), [](double value) { return std::log(value); });
  return logs;
}

Interval exponential(const Interval& logs) { return {std::exp(logs.low), std::exp(logs.high)}; }

std::vector<MedianResampler> resamplers_of(std::span<const std::vector<double>> processes) {
  std::vector<MedianResampler> resamplers;
  for (const std::vector<double>& trials : processes) resamplers.emplace_back(sorted_copy(trials));
  return resamplers;
}

/// Of the log ratio: pairs are drawn with replacement, and within each the trials of both processes.
Interval hierarchical_interval(std::span<const std::vector<double>> base, std::span<const std::vector<double>> changed,
                               const Bootstrap& bootstrap) {
  std::vector<MedianResampler> base_medians = resamplers_of(base);
  std::vector<MedianResampler> new_medians = resamplers_of(changed);
  IndexStream pairs(bootstrap.seed, 0), base_stream(bootstrap.seed, 1), new_stream(bootstrap.seed, 2);
  std::vector<double> logs(base.size());
  return percentile_interval(bootstrap.resamples, [&] {
    for (double& log : logs) {
      const std::size_t pair = pairs.draw(base.size());
      log = std::log(new_medians[pair].draw(new_stream) / base_medians[pair].draw(base_stream));
    }
    std::ranges::sort(logs);
    return quantile_of_sorted(logs, 0.5);
  });
}

double sum_of_squares(std::span<const double> values) {
  double mean = 0, squares = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  for (const double value : values) squares += (value - mean) * (value - mean);
  return squares;
}

/// Fills in the interval of exp(log_ratio) from its variance, as far as a distribution reaches to its 97.5% quantile.
template <typename Distribution>
void set_interval(Effect& effect, double variance, const Distribution& distribution) {
  const double log_ratio = std::log(effect.ratio);
  const double half_width = quantile(distribution, 0.975) * std::sqrt(variance);
  effect.interval = exponential({log_ratio - half_width, log_ratio + half_width});
}

}  // namespace

double log_median_variance(std::span<const double> trials) {
  const std::optional<Interval> interval = exact_median_interval(logarithms(trials));
  if (!interval) return 0;
  const double deviation = (interval->high - interval->low) / (2 * quantile(boost::math::normal(), 0.975));
  return deviation * deviation;
}

Effect paired_effect(std::span<const std::vector<double>> base, std::span<const std::vector<double>> changed,
                     const Bootstrap& bootstrap) {
  if (base.size() != changed.size())
    fail("{} processes of the base build are paired with {} of the new one", base.size(), changed.size());
  const std::vector<double> base_medians = medians_of(base, "base");
  const std::vector<double> new_medians = medians_of(changed, "new");
  std::vector<double> log_ratios(base.size());
  for (std::size_t i = 0; i < base.size(); ++i) log_ratios[i] = std::log(new_medians[i] / base_medians[i]);

  Effect effect{.ratio = std::exp(median(log_ratios)),
                .interval = {},
                .p = mann_whitney(base_medians, new_medians).p,
                .base_processes = std::ssize(base),
                .new_processes = std::ssize(changed),
                .paired = true};
  if (base.size() >= kBootstrapPairs) {
    effect.interval = exponential(hierarchical_interval(base, changed, bootstrap));
  } else if (const std::optional<Interval> exact = exact_median_interval(log_ratios)) {
    effect.interval = exponential(*exact);
  }
  return effect;
}

Effect unpaired_effect(std::span<const std::vector<double>> base, std::span<const std::vector<double>> changed,
                       std::optional<double> process_noise) {
  const std::vector<double> base_medians = medians_of(base, "base");
  const std::vector<double> new_medians = medians_of(changed, "new");
  Effect effect{.ratio = median(new_medians) / median(base_medians),
                .interval = {},
                .p = mann_whitney(base_medians, new_medians).p,
                .base_processes = std::ssize(base),
                .new_processes = std::ssize(changed),
                .paired = false};
  const std::vector<double> base_logs = logarithms(base_medians);
  const std::vector<double> new_logs = logarithms(new_medians);
  const auto processes = static_cast<double>(base.size() + changed.size());
  if (processes > 2) {
    const double degrees = processes - 2;
    const double pooled = (sum_of_squares(base_logs) + sum_of_squares(new_logs)) / degrees;
    const double share = 1 / static_cast<double>(base.size()) + 1 / static_cast<double>(changed.size());
    set_interval(effect, kHalfPi * pooled * share, boost::math::students_t(degrees));
  } else if (process_noise) {
    const double variance =
        2 * *process_noise * *process_noise + log_median_variance(base.front()) + log_median_variance(changed.front());
    set_interval(effect, variance, boost::math::normal());
    const double z = std::abs(std::log(effect.ratio)) / std::sqrt(variance);
    effect.p = 2 * cdf(complement(boost::math::normal(), z));
  }
  return effect;
}

}  // namespace headroom
