#pragma once

#include <cstdint>
#include <vector>

#include "kernels/core/kernel.hpp"

namespace headroom {

/// One level of the walk over the rows of a linear: how many, and the strides of x and y between them in elements.
struct RowAxis {
  std::int64_t extent;
  std::int64_t x_stride;
  std::int64_t y_stride;
};

/// Rows as one matrix product and the loops around it.
struct RowPlan {
  RowAxis rows;  ///< of the product
  std::vector<RowAxis> loops;

  /// Products that the loops make.
  [[nodiscard]] std::int64_t count() const;
  struct Offsets {
    std::int64_t x, y;  ///< in elements
  };
  [[nodiscard]] Offsets offsets(std::int64_t product) const;
};
/// The leading axes merged as far as the strides of both operands allow. The innermost becomes the product's rows,
/// whose operands then lie close together, or the longest where that has fewer than `enough`: a tile of AMX.
[[nodiscard]] RowPlan plan_rows(const Operand& x, const Operand& y, std::int64_t enough = 16);

}  // namespace headroom
