#include "kernels/highway_check.hpp"

namespace headroom {
namespace {

// The mean of normals is much smaller than they are, and the errors of its sum, relative to it, as much larger.
Tolerance tolerance(DType dtype) {
  return dtype == DType::kF32 ? Tolerance{.relative_l2 = 2e-5, .max_ulps_of_peak = 200}
                              : Tolerance{.relative_l2 = 0.004};
}

TEST(Mean, MatchesTheOracle) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Shape& shape : {Shape{2, 3, 1, 1}, Shape{2, 3, 5, 7}, Shape{1, 5, 8, 8}, Shape{3, 30, 17, 31}}) {
      for (const std::int64_t axis : {0, 1, 2, 3}) {
        expect_matches_oracle("highway.mean", make_spec(Op::kMean, {{dtype, shape}}, {{"axis", axis}}),
                              tolerance(dtype));
      }
    }
    const TensorType image{dtype, {2, 3, 5, 7}, Layout::kChannelsLast};
    expect_matches_oracle("highway.mean", make_spec(Op::kMean, {image}, {{"axis", std::int64_t{2}}}), tolerance(dtype));
  }
}

}  // namespace
}  // namespace headroom
