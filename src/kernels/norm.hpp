#pragma once

#include "kernels/kernel.hpp"

namespace headroom {

// Norms over the innermost axis of f32 or bf16, rows with stride 1 and any strides outside; may run in place. Weight,
// scale and shift have x's dtype or f32.

/// (x - mean) / sqrt(variance + eps), no affine part.
[[nodiscard]] const Kernel& highway_layer_norm();
/// x / sqrt(mean(x^2) + eps) * weight[d]
[[nodiscard]] const Kernel& highway_rms_norm();
/// layer_norm(x[b, s, d]) * (1 + scale[b, 1, d]) + shift[b, 1, d]
[[nodiscard]] const Kernel& highway_norm_modulate();

}  // namespace headroom
