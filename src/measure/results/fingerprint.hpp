#pragma once

#include <string>
#include <vector>

#include "measure/probes/machine.hpp"
#include "measure/results/result.hpp"

namespace headroom {

/// What differs between two machines and builds so that times of one say nothing of the other, one clause each:
/// "GPU: NVIDIA H200 (driver 570.1) against NVIDIA L4 (driver 570.1)". Not version and revision, which are what a
/// comparison is about, and not memory that differs by less than 1%. Builds and libraries are compared only where both
/// files are headroom's own.
[[nodiscard]] std::vector<std::string> machine_differences(const Machine& base, const Machine& changed);

/// The same for what one measurement is made of that is begun in one place and goes on in another: revisions are to
/// agree as well.
[[nodiscard]] std::vector<std::string> origin_differences(const Machine& begun, const Machine& now);

/// The same of how one benchmark ran: device, the kind of GPU where both tell it, threads, the baseline's dtype.
[[nodiscard]] std::vector<std::string> configuration_differences(const Configuration& base,
                                                                 const Configuration& changed);

}  // namespace headroom
