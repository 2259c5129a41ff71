#pragma once

#include <span>
#include <vector>

namespace headroom {

/// p-values adjusted so that rejecting those under alpha falsely rejects any with at most that probability, in the
/// order given (Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6,
/// 1979). Throws Error for a value outside [0, 1].
[[nodiscard]] std::vector<double> holm_adjust(std::span<const double> p_values);

}  // namespace headroom
