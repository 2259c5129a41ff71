#pragma once

#include "kernels/kernel.hpp"

namespace headroom {

/// ids[s, axes] of any number dtype -> cos[s, d/2], sin[s, d/2] in f32, computed in f64.
[[nodiscard]] const Kernel& highway_rope_table();
/// t[b] of any number dtype -> [b, dim] in f32, computed in f64.
[[nodiscard]] const Kernel& highway_timestep_embedding();

}  // namespace headroom
