#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "measure/statistics/statistics.hpp"

namespace headroom {

/// Uniform integers from Philox: the n-th draw of a (seed, stream) is the same on every machine.
class IndexStream {
 public:
  IndexStream(std::uint64_t seed, std::uint32_t stream);

  /// Uniform in [0, n) by multiplying and shifting (Lemire, "Fast random integer generation in an interval", 2019).
  /// The bias of any value is at most n / 2^32 of its probability.
  std::uint32_t draw(std::size_t n);

 private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> words_{};
  std::size_t used_ = 4;
};

/// Draws resamples of a sample, with replacement, and takes their medians. It counts how often each value is drawn,
/// which gives the middle values without sorting.
class MedianResampler {
 public:
  /// `sorted` is ascending and not empty.
  explicit MedianResampler(std::vector<double> sorted);

  /// The median of one resample.
  double draw(IndexStream& stream);

 private:
  std::vector<double> sorted_;
  std::vector<std::uint32_t> times_drawn_;
};

/// The 2.5% and 97.5% quantiles of the values that `draw` returns (percentile method, Efron and Tibshirani, "An
/// Introduction to the Bootstrap", 1993, section 13.3).
template <typename Draw>
[[nodiscard]] Interval percentile_interval(int resamples, Draw draw) {
  HR_CHECK_LE(1, resamples);
  std::vector<double> values(static_cast<std::size_t>(resamples));
  std::ranges::generate(values, draw);
  std::ranges::sort(values);
  return {quantile_of_sorted(values, 0.025), quantile_of_sorted(values, 0.975)};
}

/// A copy of `values` in ascending order.
[[nodiscard]] std::vector<double> sorted_copy(std::span<const double> values);

}  // namespace headroom
