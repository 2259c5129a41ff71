#pragma once

#include <span>

namespace headroom {

/// The result of Mann and Whitney's test of two independent samples.
struct MannWhitney {
  double u = 0;        ///< pairs (x of the first, y of the second) with x > y, and half of those with x = y
  double p = 1;        ///< two-sided: twice the smaller tail, at most 1
  bool exact = false;  ///< from the exact distribution of the ranks, not from the normal approximation
};

/// Tests whether values of one sample tend to be larger. Ties get the mean of their ranks. Up to 20 values on each
/// side p is exact, conditional on the ties. Beyond that it is the normal approximation with correction for ties and
/// continuity (Lehmann, "Nonparametrics", 1975, section 1.4). Throws Error if a sample is empty or holds a NaN or
/// infinity.
/// Source: Mann and Whitney, "On a test of whether one of two random variables is stochastically larger than the
/// other", Annals of Mathematical Statistics 18, 1947.
[[nodiscard]] MannWhitney mann_whitney(std::span<const double> first, std::span<const double> second);

}  // namespace headroom
