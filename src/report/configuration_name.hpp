#pragma once

#include <string>

#include "measure/results/result.hpp"

namespace headroom {

/// Names a configuration by what was asked for: "baseline", "arena+fuse", and "lossless+fp8" where all that the preset
/// stands for on this kind of device was asked for. What declined does not change the name.
[[nodiscard]] std::string asked_name(const Machine& machine, const Configuration& configuration);

}  // namespace headroom
