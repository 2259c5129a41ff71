#include "measure/statistics/mann_whitney.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "base/error.hpp"
#include "measure/statistics/distributions.hpp"

namespace headroom {
namespace {

constexpr std::size_t kExactLimit = 20;  // values on each side; 20 and 20 have 1.4e11 arrangements, exact in a double

struct Pooled {
  double value;
  bool is_first;
};

std::vector<Pooled> pool(std::span<const double> first, std::span<const double> second) {
  std::vector<Pooled> pooled;
  pooled.reserve(first.size() + second.size());
  for (const double value : first) pooled.push_back({value, true});
  for (const double value : second) pooled.push_back({value, false});
  for (const Pooled& one : pooled)
    if (!std::isfinite(one.value)) fail("a value of the Mann-Whitney test is {}; all must be finite", one.value);
  std::ranges::sort(pooled, {}, &Pooled::value);
  return pooled;
}

/// MidRanks with ties averaged, doubled so that they are integers.
struct MidRanks {
  std::vector<std::size_t> doubled;  ///< of every pooled value, ascending
  std::size_t doubled_sum_of_first = 0;
  double tie_term = 0;  ///< sum of t^3 - t over groups of t equal values
};

MidRanks rank(const std::vector<Pooled>& pooled) {
  MidRanks ranks;
  for (std::size_t begin = 0, end = 0; begin < pooled.size(); begin = end) {
    while (end < pooled.size() && pooled[end].value == pooled[begin].value) ++end;
    const std::size_t doubled = begin + 1 + end;  // twice the mean of begin + 1, ..., end
    for (std::size_t i = begin; i < end; ++i) {
      ranks.doubled.push_back(doubled);
      if (pooled[i].is_first) ranks.doubled_sum_of_first += doubled;
    }
    const auto t = static_cast<double>(end - begin);
    ranks.tie_term += t * t * t - t;
  }
  return ranks;
}

/// Counts the selections of `n` ranks by their doubled sum, and returns twice the smaller tail.
double exact_p(const MidRanks& ranks, std::size_t n) {
  std::size_t total = 0;
  for (const std::size_t doubled : ranks.doubled) total += doubled;
  // counts[k][s]: subsets of k of the ranks seen so far with doubled sum s
  std::vector<std::vector<double>> counts(n + 1, std::vector<double>(total + 1, 0));
  counts[0][0] = 1;
  for (const std::size_t doubled : ranks.doubled)
    for (std::size_t k = n; k > 0; --k)
      for (std::size_t sum = total; sum >= doubled; --sum) counts[k][sum] += counts[k - 1][sum - doubled];
  double all = 0, at_most = 0, at_least = 0;
  for (std::size_t sum = 0; sum <= total; ++sum) {
    all += counts[n][sum];
    if (sum <= ranks.doubled_sum_of_first) at_most += counts[n][sum];
    if (sum >= ranks.doubled_sum_of_first) at_least += counts[n][sum];
  }
  return std::min(1.0, 2 * std::min(at_most, at_least) / all);
}

double approximate_p(double u, double n, double m, double tie_term) {
  const double count = n + m;
  const double variance = n * m / 12 * (count + 1 - tie_term / (count * (count - 1)));
  if (variance <= 0) return 1;  // all values are equal
  return two_sided_normal_p(std::max(0.0, std::abs(u - n * m / 2) - 0.5) / std::sqrt(variance));
}

}  // namespace

MannWhitney mann_whitney(std::span<const double> first, std::span<const double> second) {
  if (first.empty() || second.empty())
    fail("the Mann-Whitney test of {} and {} values needs at least one on each side", first.size(), second.size());
  const MidRanks ranks = rank(pool(first, second));
  const auto n = static_cast<double>(first.size());
  const auto m = static_cast<double>(second.size());
  MannWhitney test;
  test.u = static_cast<double>(ranks.doubled_sum_of_first) / 2 - n * (n + 1) / 2;
  test.exact = std::max(first.size(), second.size()) <= kExactLimit;
  test.p = test.exact ? exact_p(ranks, first.size()) : approximate_p(test.u, n, m, ranks.tie_term);
  return test;
}

}  // namespace headroom
