#pragma once

#include <cstdint>
#include <vector>

#include "kernels/core/row_loop.hpp"

namespace headroom {

/// The axes of a reduction's operand, as both devices iterate over them.
struct ReducedAxes {
  Shape kept, kept_from, kept_to;  ///< extents and strides of x and y; with one more of 1, so that each result is a row
  Shape reduced, reduced_from;
  /// If the contiguous axis of x is kept: its extent, and its stride in y; `kept` then does not contain it.
  /// Otherwise 0.
  std::int64_t columns = 0, column_stride = 0;
};
[[nodiscard]] ReducedAxes split_axes(const std::vector<std::int64_t>& axes, const Operand& x, const Operand& y);

/// The elements of a result that lacks one axis of x: the offset in x where that axis begins, and the offset in y.
/// Rows have one element.
[[nodiscard]] RowLoop<2> places_without(int axis, const Operand& x, const Operand& y);

}  // namespace headroom
