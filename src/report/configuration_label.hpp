#pragma once

#include <string>

#include "measure/result.hpp"

namespace headroom {

/// The short name of a configuration: "baseline", "lossless+fp8", "arena+fuse". A preset stands for its switches where
/// all of those that are for the device were asked for, whether they applied or declined; what else applied follows. A
/// configuration of which nothing applied, or that `auto` chose, is named by what was asked for.
[[nodiscard]] std::string configuration_label(const Configuration& configuration);

}  // namespace headroom
