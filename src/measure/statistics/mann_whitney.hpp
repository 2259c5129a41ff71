#pragma once

#include <span>

namespace headroom {

/// What the test of Mann and Whitney says of two independent samples.
struct MannWhitney {
  double u = 0;        ///< pairs (x of the first, y of the second) with x > y, and half of those with x = y
  double p = 1;        ///< two-sided: twice the smaller tail, at most 1
  bool exact = false;  ///< from all ways to deal the ranks, not from the normal approximation
};

/// Tests whether values of one sample tend to be larger (Mann and Whitney, "On a test of whether one of two random
/// variables is stochastically larger than the other", Annals of Mathematical Statistics 18, 1947). Ties get the mean
/// of their ranks. Up to 20 values on each side p is exact, conditional on the ties; beyond that it is the normal
/// approximation with correction for ties and continuity (Lehmann, "Nonparametrics", 1975, section 1.4). Throws Error
/// where a sample is empty or holds a NaN or infinity.
[[nodiscard]] MannWhitney mann_whitney(std::span<const double> first, std::span<const double> second);

}  // namespace headroom
