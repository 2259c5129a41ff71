#pragma once

#include <optional>
#include <span>
#include <vector>

namespace headroom {

/// The step of the clock that took times (ms, by process) of two builds, as far as it is coarse: the greatest common divisor of their
/// differences, where several trials of a process share its median. 0 where none do, or the step is below 0.05% of the median;
/// nothing where all trials are equal, which no step can be told from.
[[nodiscard]] std::optional<double> clock_tick(std::span<const std::vector<double>> base,
                                               std::span<const std::vector<double>> changed);

}  // namespace headroom
