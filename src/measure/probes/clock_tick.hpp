#pragma once

#include <optional>
#include <span>
#include <vector>

namespace headroom {

/// The resolution of the clock that measured times (ms, by process) of two builds, if it is coarse. It is the
/// greatest common divisor of the differences of the times. It is used only if several trials of a process equal its
/// median. 0 if none do, or if the resolution is below 0.05% of the median. Nothing if all trials are equal, which
/// does not show the resolution.
[[nodiscard]] std::optional<double> clock_tick(std::span<const std::vector<double>> base,
                                               std::span<const std::vector<double>> changed);

}  // namespace headroom
