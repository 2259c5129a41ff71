#include "kernels/cuda/gpu_check.hpp"

namespace headroom {
namespace {

using CudaAttention = cuda::KernelTest;

struct Case {
  std::int64_t batch, heads, queries, keys, dim, value_dim;
};

OpSpec attention_spec(DType dtype, const Case& c, double scale = 0.2) {
  return make_spec(Op::kAttention,
                   {{dtype, {c.batch, c.heads, c.queries, c.dim}},
                    {dtype, {c.batch, c.heads, c.keys, c.dim}},
                    {dtype, {c.batch, c.heads, c.keys, c.value_dim}}},
                   {{"scale", scale}});
}

TEST_F(CudaAttention, ByCudnnMatchesTheOracle) {
  // Probabilities are rounded to bf16 before the second product.
  constexpr Tolerance kTolerance{.relative_l2 = 8e-3, .max_ulps_of_peak = 4};
  for (const Case& c : {Case{1, 1, 1, 1, 8, 8}, Case{2, 3, 17, 17, 40, 40}, Case{2, 3, 272, 272, 64, 64},
                        Case{1, 2, 130, 65, 128, 128}, Case{1, 2, 64, 300, 128, 64}}) {
    const OpSpec spec = attention_spec(DType::kBF16, c);
    if (const Support rejection = kernel_named("cudnn.attention").supports(spec, target()))
      GTEST_SKIP() << rejection->reason;
    expect_matches_oracle("cudnn.attention", spec, kTolerance);
    expect_matches_oracle("cudnn.attention", attention_spec(DType::kF16, c),
                          {.relative_l2 = 1e-3, .max_ulps_of_peak = 4});
  }
}

TEST_F(CudaAttention, ByProductsMatchesTheOracle) {
  for (const Case& c :
       {Case{1, 1, 1, 1, 1, 1}, Case{2, 3, 17, 19, 7, 5}, Case{2, 3, 72, 72, 64, 64}, Case{1, 2, 130, 65, 160, 128}}) {
    expect_matches_oracle("cublaslt.attention", attention_spec(DType::kF32, c), {.relative_l2 = 4e-6});
    expect_matches_oracle("cublaslt.attention", attention_spec(DType::kBF16, c),
                          {.relative_l2 = 1.2e-2, .max_ulps_of_peak = 4});
    expect_matches_oracle("cublaslt.attention", attention_spec(DType::kF16, c),
                          {.relative_l2 = 1.5e-3, .max_ulps_of_peak = 4});
  }
}

TEST_F(CudaAttention, ByProductsTakesScoresThatWouldOverflowAnExponential) {
  // Scores round in f32; the looser bound allows for it.
  for (const double scale : {30.0, -30.0, 1e8, -1e12})
    expect_matches_oracle("cublaslt.attention", attention_spec(DType::kF32, {1, 2, 33, 100, 16, 16}, scale),
                          {.relative_l2 = 5e-3, .max_ulps_of_peak = 1e6});
}

TEST_F(CudaAttention, DeclinesWithReasons) {
  const auto reason = [&](DType dtype, std::int64_t dim) {
    const Support rejection =
        kernel_named("cudnn.attention").supports(attention_spec(dtype, {1, 1, 4, 4, dim, dim}), target());
    return rejection ? rejection->reason : "supported";
  };
  EXPECT_EQ(reason(DType::kF32, 64), "takes bf16 or f16, not f32");
  EXPECT_EQ(reason(DType::kBF16, 36), "takes heads of up to 128 elements, a multiple of 8, not 36");
  EXPECT_EQ(reason(DType::kBF16, 256), "takes heads of up to 128 elements, a multiple of 8, not 256");
}

}  // namespace
}  // namespace headroom
