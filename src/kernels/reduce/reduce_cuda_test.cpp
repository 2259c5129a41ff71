#include "testing/gpu_check.hpp"

namespace headroom {
namespace {

class CudaReductions : public cuda::KernelTest {};
class CudaLargest : public cuda::KernelTest {};

TEST_F(CudaReductions, MatchTheOracle) {
  for (const DType dtype : cuda::kDTypes)
    for (const Op op : {Op::kSum, Op::kMean, Op::kAmax, Op::kAmin})
      for (const OpCase& one : small_cases(op, {dtype, dtype}))
        expect_matches_oracle(fmt::format("cuda.{}", name_of(op)), one.spec, one.tolerance);
}

/// Sums that blocks share: columns of a bias or a norm's weight, in packs and alone, and all elements.
TEST_F(CudaReductions, ShareFewResultsAmongBlocks) {
  for (const DType dtype : cuda::kDTypes)
    for (const auto& [shape, axes] : {std::pair(Shape{3000, 72}, Ints{0}), std::pair(Shape{2, 1500, 37}, Ints{0, 1}),
                                      std::pair(Shape{3, 700, 64}, Ints{1}), std::pair(Shape{300, 500}, Ints{0, 1}),
                                      std::pair(Shape{70000}, Ints{0}), std::pair(Shape{3, 50000}, Ints{1}),
                                      std::pair(Shape{64, 3, 40, 5}, Ints{0, 2})})
      for (const Op op : {Op::kSum, Op::kMean, Op::kAmax})
        expect_matches_oracle(fmt::format("cuda.{}", name_of(op)),
                              make_spec(op, {{dtype, shape}}, {{attr::kAxes, axes}}),
                              {.relative_l2 = dtype == DType::kF32 ? 1e-6 : 8e-3});
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
