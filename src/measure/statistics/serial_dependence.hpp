#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace headroom {

/// Whether values that were measured one after the other are independent.
struct SerialDependence {
  double correlation = 0;    ///< at lag 1, one standard error above its estimate, within [0, 0.9]
  bool is_drifting = false;  ///< the estimate is above what independent values give by chance: 0.25 standard errors
};

/// At most `most` values: medians of consecutive blocks of equal length, of which the last may be longer (batch means, Law,
/// "Simulation Modeling and Analysis", 2014, section 9.5.3). Blocks keep a drift, and lose outliers and short-lived correlation.
[[nodiscard]] std::vector<double> block_medians(std::span<const double> values, std::size_t most = 16);

/// The lag-1 correlation that both series have in common, from von Neumann's ratio of squared successive differences to squares
/// about the mean (von Neumann, "Distribution of the ratio of the mean square successive difference to the variance", 1941). Nothing
/// can be told of fewer than 5 values in all, or of equal ones: they count as independent.
[[nodiscard]] SerialDependence serial_dependence(std::span<const double> first, std::span<const double> second);

/// The variance of the mean of `n` values with correlation^k at lag k, over that of independent ones.
[[nodiscard]] double variance_inflation(double correlation, std::size_t n);

}  // namespace headroom
