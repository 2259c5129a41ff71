#include "ir/test_cases/tolerance.hpp"

namespace headroom {

double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 0x1p-52;
    case DType::kF32:
      return 0x1p-23;
    case DType::kF16:
      return 0x1p-10;
    case DType::kBF16:
      return 0x1p-7;
    case DType::kF8E4M3:
      return 0x1p-3;
    case DType::kF8E5M2:
      return 0x1p-2;
    default:
      return 0;
  }
}

Tolerance default_tolerance(DType dtype) {
  // Storing rounds to nearest: a relative error of at most epsilon / 2, about 0.4 of that in L2 on random data. The
  // f32 bound adds room for sums and functions; bounds of narrower dtypes add room for values that the sums push
  // over a rounding boundary.
  switch (dtype) {
    case DType::kF64:
      return {.relative_l2 = 1e-14};
    case DType::kF32:
      return {.relative_l2 = 2e-6};
    default:
      return {.relative_l2 = 0.5 * epsilon_of(dtype), .max_ulps_of_peak = 2};
  }
}

}  // namespace headroom
