#pragma once

#include "kernels/kernel.hpp"

namespace headroom {

// Ops that move elements of any dtype and change none. All but reshape take operands of any strides. The planner makes
// most of them views; these run where it cannot.

[[nodiscard]] const Kernel& highway_reshape();
[[nodiscard]] const Kernel& highway_transpose();
[[nodiscard]] const Kernel& highway_concat();
[[nodiscard]] const Kernel& highway_slice();
/// table[index] for an i32 scalar; launch throws Error where there is no such row.
[[nodiscard]] const Kernel& highway_row();

}  // namespace headroom
