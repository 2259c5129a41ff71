#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace headroom {

/// Whether values measured one after another are independent.
struct SerialDependence {
  double correlation = 0;    ///< at lag 1, one standard error above its estimate, within [0, 0.9]
  bool is_drifting = false;  ///< the estimate is above the level of independent values, which is 0.25 standard errors
};

/// At most `most` values: the medians of consecutive blocks of equal length, of which the last may be longer (batch
/// means, Law, "Simulation Modeling and Analysis", 2014, section 9.5.3). Blocks preserve a drift, and suppress
/// outliers and short-lived correlation.
[[nodiscard]] std::vector<double> block_medians(std::span<const double> values, std::size_t most = 16);

/// The lag-1 correlation common to both series, from von Neumann's ratio of squared successive differences to squares
/// about the mean. Fewer than 5 values in all, or equal values, allow no estimate: they count as independent.
/// Source: von Neumann, "Distribution of the ratio of the mean square successive difference to the variance", 1941.
[[nodiscard]] SerialDependence serial_dependence(std::span<const double> first, std::span<const double> second);

/// The variance of the mean of `n` values with correlation^k at lag k, relative to that of independent values.
[[nodiscard]] double variance_inflation(double correlation, std::size_t n);

}  // namespace headroom
