#pragma once

#include <string>

#include "measure/results/result.hpp"

namespace headroom {

/// Names a configuration by the requested switches: "baseline", "arena+fuse". A preset is named ("lossless+fp8") if
/// all of its switches for this kind of device were requested. Declined switches do not change the name.
[[nodiscard]] std::string asked_name(const Machine& machine, const Configuration& configuration);

}  // namespace headroom
