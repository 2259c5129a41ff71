#pragma once

#include "ir/fusion_rules.hpp"

namespace headroom {

/// The rules that the kernels of this build make: a node runs if the supports() of one of them says so.
[[nodiscard]] const FusionRules& kernel_rules();

}  // namespace headroom
