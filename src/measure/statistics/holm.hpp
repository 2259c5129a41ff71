#pragma once

#include <span>
#include <vector>

namespace headroom {

/// p-values in the given order, adjusted for multiple tests: rejecting those below alpha makes any false rejection
/// with probability at most alpha. Method: Holm, "A simple sequentially rejective multiple test procedure",
/// Scandinavian Journal of Statistics 6, 1979. Throws Error for a value outside [0, 1].
[[nodiscard]] std::vector<double> holm_adjust(std::span<const double> p_values);

}  // namespace headroom
