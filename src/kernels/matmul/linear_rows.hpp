#pragma once

#include <cstdint>
#include <vector>

#include "kernels/core/kernel.hpp"

namespace headroom {

/// One loop level over the rows of a linear: the extent, and the strides of x and y in elements.
struct RowAxis {
  std::int64_t extent;
  std::int64_t x_stride;
  std::int64_t y_stride;
};

/// The rows of one GEMM, and the loops around it.
struct RowPlan {
  RowAxis rows;  ///< of the GEMM
  std::vector<RowAxis> loops;

  /// The number of GEMMs that the loops run.
  [[nodiscard]] std::int64_t count() const;
  struct Offsets {
    std::int64_t x, y;  ///< in elements
  };
  [[nodiscard]] Offsets offsets(std::int64_t gemm) const;
};
/// Merges the leading axes as far as the strides of both operands allow. The innermost axis becomes the GEMM's rows,
/// whose operands are then close together; if it has fewer than `enough` (a tile of AMX), the longest does.
[[nodiscard]] RowPlan plan_rows(const Operand& x, const Operand& y, std::int64_t enough = 16);

}  // namespace headroom
