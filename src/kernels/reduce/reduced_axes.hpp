#pragma once

#include <cstdint>
#include <vector>

#include "kernels/core/row_loop.hpp"

namespace headroom {

/// The axes of a reduction's operand, as both devices walk them.
struct ReducedAxes {
  Shape kept, kept_from, kept_to;  ///< extents and strides of x and y; with one more of 1, so that each result is a row
  Shape reduced, reduced_from;
  /// Where the axis of x whose elements lie side by side is kept: its extent, and its stride in y. It is then none of
  /// `kept`. Otherwise 0.
  std::int64_t columns = 0, column_stride = 0;
};
[[nodiscard]] ReducedAxes split_axes(const std::vector<std::int64_t>& axes, const Operand& x, const Operand& y);

/// The places of a result that lacks one axis of x: where in x that axis begins, and where in y. Rows have one element.
[[nodiscard]] RowLoop<2> places_beside(int axis, const Operand& x, const Operand& y);

}  // namespace headroom
