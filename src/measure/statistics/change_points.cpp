#include "measure/statistics/change_points.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "measure/statistics/bootstrap_interval.hpp"
#include "measure/statistics/statistics.hpp"

namespace headroom {
namespace {

constexpr std::size_t kShortestPart = 2;  // a part of one value has no distances within it

struct Split {
  std::size_t index = 0;  ///< in the series
  double divergence = 0;
};

/// The split of values [begin, end) with the largest divergence
///   n m / (n + m) * (2 mean |x - y| - mean |x - x'| - mean |y - y'|),
/// where x runs over the n values before the split and y over the m values from it on. Moving one value from the
/// second part to the first changes the three sums by its distances to both parts. So all splits together take n^2
/// distances.
std::optional<Split> best_split(std::span<const double> series, std::size_t begin, std::size_t end) {
  if (end - begin < 2 * kShortestPart) return std::nullopt;
  double between = 0, within_first = 0, within_second = 0;
  for (std::size_t i = begin; i < end; ++i)
    for (std::size_t j = i + 1; j < end; ++j) within_second += std::abs(series[i] - series[j]);
  std::optional<Split> best;
  for (std::size_t moved = begin; moved + kShortestPart < end; ++moved) {
    double to_first = 0, to_second = 0;
    for (std::size_t i = begin; i < moved; ++i) to_first += std::abs(series[moved] - series[i]);
    for (std::size_t j = moved + 1; j < end; ++j) to_second += std::abs(series[moved] - series[j]);
    within_first += to_first;
    within_second -= to_second;
    between += to_second - to_first;
    const auto n = static_cast<double>(moved + 1 - begin);
    const auto m = static_cast<double>(end - moved - 1);
    if (moved + 1 - begin < kShortestPart) continue;
    const double divergence =
        n * m / (n + m) *
        (2 * between / (n * m) - within_first / (n * (n - 1) / 2) - within_second / (m * (m - 1) / 2));
    if (!best || divergence > best->divergence) best = Split{moved + 1, divergence};
  }
  return best;
}

/// The best split of any segment; `bounds` are the starts of the segments, and the end.
std::optional<Split> best_split(std::span<const double> series, const std::set<std::size_t>& bounds) {
  std::optional<Split> best;
  for (auto begin = bounds.begin(), end = std::next(begin); end != bounds.end(); ++begin, ++end) {
    const std::optional<Split> split = best_split(series, *begin, *end);
    if (split && (!best || split->divergence > best->divergence)) best = split;
  }
  return best;
}

void shuffle(std::span<double> values, IndexStream& stream) {
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[stream.draw(i)]);
}

/// The share of permutations, counting the series itself, whose best split is at least as good. Stops as soon as it
/// exceeds alpha.
double permutation_p(std::span<const double> series, const std::set<std::size_t>& bounds, double divergence,
                     const ChangePointOptions& options, IndexStream& stream) {
  const double all = options.permutations + 1;
  std::vector<double> permuted(series.begin(), series.end());
  double reached = 1;
  // Another summation order rounds differently; without this slack, a permutation equal to the series might not
  // count.
  const double bar = divergence * (1 - 1e-9);
  for (int i = 0; i < options.permutations && reached / all <= options.alpha; ++i) {
    for (auto begin = bounds.begin(), end = std::next(begin); end != bounds.end(); ++begin, ++end)
      shuffle(std::span(permuted).subspan(*begin, *end - *begin), stream);
    const std::optional<Split> split = best_split(permuted, bounds);
    if (split && split->divergence >= bar) ++reached;
  }
  return reached / all;
}

}  // namespace

std::vector<ChangePoint> find_change_points(std::span<const double> series, const ChangePointOptions& options) {
  for (const double value : series)
    if (!std::isfinite(value)) fail("a value of the series is {}; all must be finite", value);
  if (series.empty()) return {};
  std::vector<ChangePoint> found;
  std::set<std::size_t> bounds = {0, series.size()};
  IndexStream stream(options.seed, 0);
  while (const std::optional<Split> split = best_split(series, bounds)) {
    if (split->divergence <= 0) break;
    const double p = permutation_p(series, bounds, split->divergence, options, stream);
    if (p > options.alpha) break;
    bounds.insert(split->index);
    found.push_back({.index = split->index, .p = p});
  }
  std::ranges::sort(found, {}, &ChangePoint::index);
  for (ChangePoint& point : found) {
    const auto at = bounds.find(point.index);
    point.before = median(series.subspan(*std::prev(at), point.index - *std::prev(at)));
    point.after = median(series.subspan(point.index, *std::next(at) - point.index));
  }
  return found;
}

}  // namespace headroom
