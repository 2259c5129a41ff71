#pragma once

#include "ir/fusion_rules.hpp"

namespace headroom {

/// The rules that the kernels of this build make, by their supports() and best_images().
[[nodiscard]] const FusionRules& kernel_rules();

}  // namespace headroom
