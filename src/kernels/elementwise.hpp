#pragma once

#include "kernels/kernel.hpp"

namespace headroom {

// Elementwise ops on f32 or bf16, innermost stride 1 and any strides outside; the two-operand forms broadcast as in
// NumPy. All may write over an operand of the result's type and strides.

[[nodiscard]] const Kernel& highway_add();
[[nodiscard]] const Kernel& highway_sub();
[[nodiscard]] const Kernel& highway_mul();
[[nodiscard]] const Kernel& highway_add_scalar();
[[nodiscard]] const Kernel& highway_mul_scalar();
[[nodiscard]] const Kernel& highway_relu();
[[nodiscard]] const Kernel& highway_silu();
/// Both forms: "tanh" and "none" (erf).
[[nodiscard]] const Kernel& highway_gelu();

}  // namespace headroom
