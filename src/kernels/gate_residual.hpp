#pragma once

#include "kernels/kernel.hpp"

namespace headroom {

/// residual[b, s, d] + gate[b, 1, d] * x[b, s, d] of f32 or bf16 (gate the same or f32), rows with stride 1; may run in
/// place.
[[nodiscard]] const Kernel& highway_gate_residual();

}  // namespace headroom
