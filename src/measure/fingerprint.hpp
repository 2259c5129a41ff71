#pragma once

#include <string>
#include <vector>

#include "measure/machine.hpp"
#include "measure/result.hpp"

namespace headroom {

/// What differs between two machines and builds so that times of one say nothing of the other, one clause each:
/// "GPU: NVIDIA H200 (driver 570.1) against NVIDIA L4 (driver 570.1)". Not version and revision, which are what a
/// comparison is about, and not memory that differs by less than 1%. Builds and libraries are compared only where both
/// files are headroom's own.
[[nodiscard]] std::vector<std::string> machine_differences(const Machine& base, const Machine& changed);

/// The same of how one benchmark ran: device, threads, the baseline's dtype.
[[nodiscard]] std::vector<std::string> configuration_differences(const Configuration& base,
                                                                 const Configuration& changed);

}  // namespace headroom
