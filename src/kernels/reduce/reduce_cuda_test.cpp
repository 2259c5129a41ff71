#include "testing/gpu_check.hpp"
#include "testing/reduce_cases.hpp"

namespace headroom {
namespace {

class CudaReductions : public cuda::KernelTest {};
class CudaLargest : public cuda::KernelTest {};

// A sum of normals is much smaller than they are, and its error, relative to it, as much larger.
Tolerance tolerance(Op op, DType dtype) {
  if (op == Op::kAmax || op == Op::kAmin) return {.relative_l2 = 0, .max_ulps_of_peak = 0};
  return dtype == DType::kF32 ? Tolerance{.relative_l2 = 2e-5, .max_ulps_of_peak = 200}
                              : Tolerance{.relative_l2 = 0.004};
}

TEST_F(CudaReductions, MatchTheOracle) {
  for (const DType dtype : cuda::kDTypes)
    for (const Op op : {Op::kSum, Op::kMean, Op::kAmax, Op::kAmin}) {
      const std::string kernel = fmt::format("cuda.{}", name_of(op));
      for (const auto& [shape, axes] : kReduceCases)
        expect_matches_oracle(kernel, make_spec(op, {{dtype, shape}}, {{"axes", axes}}), tolerance(op, dtype));
    }
}

TEST_F(CudaLargest, MatchTheOracle) {
  for (const DType dtype : cuda::kDTypes)
    for (const Shape& shape : {Shape{1}, Shape{7}, Shape{3, 40}, Shape{2, 5, 17}, Shape{2, 700}}) {
      for (int axis = 0; axis < shape.rank(); ++axis)
        expect_matches_oracle("cuda.argmax", make_spec(Op::kArgmax, {{dtype, shape}}, {{"axis", std::int64_t{axis}}}));
      for (const std::int64_t k : {std::int64_t{1}, (shape[-1] + 1) / 2, shape[-1]})
        expect_matches_oracle("cuda.topk", make_spec(Op::kTopk, {{dtype, shape}}, {{"k", k}}));
    }
}

}  // namespace
}  // namespace headroom
