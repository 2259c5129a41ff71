#include "measure/probes/clock_tick.hpp"

#include <algorithm>
#include <cmath>

#include "measure/statistics/bootstrap_interval.hpp"
#include "measure/statistics/statistics.hpp"

namespace headroom {
namespace {

constexpr double kFine = 5e-4;      // relative to the median: a resolution that changes no verdict
constexpr double kRounding = 2e-5;  // relative to the median: rounding error of equal times

/// Whether other trials equal the median as well.
bool is_tied_in_the_middle(const std::vector<double>& trials, double rounding) {
  const std::vector<double> sorted = sorted_copy(trials);
  const double middle = sorted[(sorted.size() - 1) / 2];
  return std::ranges::count_if(sorted, [&](double ms) { return std::abs(ms - middle) <= rounding; }) > 1;
}

}  // namespace

std::optional<double> clock_tick(std::span<const std::vector<double>> base,
                                 std::span<const std::vector<double>> changed) {
  std::vector<double> all;
  for (const auto& build : {base, changed})
    for (const std::vector<double>& trials : build) all.insert(all.end(), trials.begin(), trials.end());
  std::ranges::sort(all);
  const double middle = quantile_of_sorted(all, 0.5), rounding = kRounding * middle;
  const auto is_tied = [&](const std::vector<double>& trials) { return is_tied_in_the_middle(trials, rounding); };
  if (std::ranges::none_of(base, is_tied) && std::ranges::none_of(changed, is_tied)) return 0;
  if (all.back() - all.front() <= rounding) return std::nullopt;
  double tick = 0;
  for (const double ms : all)
    for (double rest = ms - all.front(); rest > rounding;) {  // Euclid's algorithm
      const double larger = tick;
      tick = rest;
      rest = larger > 0 ? std::fmod(larger, rest) : 0;
    }
  return tick < kFine * middle ? 0 : tick;
}

}  // namespace headroom
