#pragma once

#include "kernels/core/row_loop.hpp"
#include "kernels/core/written_kernel.hpp"

namespace headroom {

/// The iteration space of rope and qk_norm_rope: a row is a position of the first head, its operands x, cos, sin, y.
/// All heads of a position share their loads of cos and sin.
struct RopePositions {
  std::int64_t heads = 1;
  std::int64_t x_head = 0;  ///< elements from one head to the next
  std::int64_t y_head = 0;
  RowLoop<4> loop;
};
[[nodiscard]] RopePositions rope_positions(const KernelBinding& binding);

}  // namespace headroom
