#include "testing/gpu_check.hpp"

namespace headroom {
namespace {

using CudaRope = cuda::KernelTest;

TEST_F(CudaRope, RopeMatchesTheOracle) {
  for (const DType dtype : cuda::kDTypes)
    for (const Shape& shape : {Shape{3, 2}, Shape{2, 3, 5, 6}, Shape{1, 2, 9, 8}, Shape{2, 3, 17, 40},
                               Shape{2, 3, 17, 64}, Shape{1, 2, 33, 128}, Shape{1, 2, 3, 250}, Shape{1, 2, 3, 256}}) {
      const TensorType angles{DType::kF32, {shape[-2], shape[-1] / 2}};
      expect_matches_oracle("cuda.rope", make_spec(Op::kRope, {{dtype, shape}, angles, angles}));
    }
}

TEST_F(CudaRope, QkNormRopeMatchesTheOracle) {
  struct Case {
    std::int64_t batch, seq, heads, dim;
  };
  for (const cuda::Types types : cuda::kTypes)
    for (const Case& c : {Case{1, 1, 1, 2}, Case{2, 5, 3, 6}, Case{2, 9, 2, 64}, Case{1, 33, 24, 128},
                          Case{2, 7, 3, 40}, Case{1, 3, 2, 256}, Case{1, 3, 2, 250}}) {
      const TensorType angles{DType::kF32, {c.seq, c.dim / 2}};
      expect_matches_oracle(
          "cuda.qk_norm_rope",
          make_spec(Op::kQkNormRope,
                    {{types.x, {c.batch, c.seq, c.heads * c.dim}}, {types.side, {c.dim}}, angles, angles},
                    {{"heads", c.heads}, {"eps", 1e-6}}));
    }
}

TEST_F(CudaRope, LongerHeadsAreDeclinedWithAReason) {
  const TensorType angles{DType::kF32, {3, 130}};
  const Support rejection =
      kernel_named("cuda.rope").supports(make_spec(Op::kRope, {{DType::kF32, {2, 3, 260}}, angles, angles}), target());
  ASSERT_TRUE(rejection.has_value());
  EXPECT_EQ(rejection->reason, "takes heads of up to 256 elements, not 260");
}

}  // namespace
}  // namespace headroom
