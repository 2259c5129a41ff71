#pragma once

#include <string>
#include <vector>

#include "measure/probes/machine.hpp"
#include "measure/results/result.hpp"

namespace headroom {

/// The differences between two machines and builds that make their times incomparable, one clause each, the new one
/// against the base: "GPU: NVIDIA H200 (driver 570.1) against NVIDIA L4 (driver 570.1)". Version and revision are not
/// among them, because a comparison is about those; neither is memory that differs by less than 1%. Builds and
/// libraries are compared only if both files are headroom's own.
[[nodiscard]] std::vector<std::string> machine_differences(const Machine& base, const Machine& changed);

/// The same for a measurement that is begun in one place and continued in another: revisions must agree as well.
[[nodiscard]] std::vector<std::string> origin_differences(const Machine& begun, const Machine& now);

/// The same for how one benchmark ran: device, GPU model where both state it, threads, the baseline's dtype.
[[nodiscard]] std::vector<std::string> configuration_differences(const Configuration& base,
                                                                 const Configuration& changed);

}  // namespace headroom
