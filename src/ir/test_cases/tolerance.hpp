#pragma once

#include "base/tensors/dtype.hpp"

namespace headroom {

/// The largest error of a kernel. The relative error is ||out - ref||_2 / ||ref||_2 over all elements. In addition,
/// no element may be off by more than `max_ulps_of_peak` times the dtype's epsilon times the largest |ref|.
struct Tolerance {
  double relative_l2;
  double max_ulps_of_peak = 64;
  double absolute = 0;       ///< added to both limits for each element, for results that are near 0 as a whole
  bool rounds_once = false;  ///< every element must equal the oracle's, rounded to the dtype
};

/// The distance from 1 to the next number of a floating-point dtype; 0 for other dtypes.
[[nodiscard]] double epsilon_of(DType dtype);

/// The usual tolerance of a kernel that computes in f32 and stores `dtype`.
[[nodiscard]] Tolerance default_tolerance(DType dtype);

/// For results that are only moved or chosen.
inline constexpr Tolerance kExactly{.relative_l2 = 0, .max_ulps_of_peak = 0};

}  // namespace headroom
