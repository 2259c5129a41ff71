#include <cmath>

#include "testing/gpu_check.hpp"

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

/// The same with `kv_heads` of keys and, unless its rank is 0, a bias or mask of the scores.
OpSpec biased_spec(DType dtype, const Case& c, std::int64_t kv_heads, const TensorType& bias, bool causal = false,
                   bool logsumexp = false, std::int64_t diagonal = 0) {
  std::vector<TensorType> in = {{dtype, {c.batch, c.heads, c.queries, c.dim}},
                                {dtype, {c.batch, kv_heads, c.keys, c.dim}},
                                {dtype, {c.batch, kv_heads, c.keys, c.value_dim}}};
  if (bias.shape.rank() > 0) in.push_back(bias);
  return make_spec(Op::kAttention, in,
                   {{"scale", 0.2},
                    {"causal", std::int64_t{causal}},
                    {"diagonal", diagonal},
                    {"logsumexp", std::int64_t{logsumexp}}});
}
constexpr TensorType kNoBias{};

bool can_prepare(std::string_view kernel, const OpSpec& spec, const DeviceTarget& target) {
  std::vector<Operand> in;
  for (const TensorType& type : spec.inputs) in.push_back(dense_operand(type));
  const Operand out = dense_operand(spec.outputs[0]);
  try {
    return kernel_named(kernel).prepare(spec, in, {&out, 1}, target) != nullptr;
  } catch (const CannotPrepare&) {
    return false;
  }
}

/// Scores are rounded to the dtype before the softmax.
Tolerance gemms_tolerance(DType dtype) {
  if (dtype == DType::kF32) return {.relative_l2 = 4e-6};
  return {.relative_l2 = dtype == DType::kBF16 ? 1.2e-2 : 1.5e-3, .max_ulps_of_peak = 4};
}

TEST_F(CudaAttention, ByGemmsTakesABiasOrAMask) {
  for (const DType dtype : cuda::kDTypes)
    for (const Case& c : {Case{2, 3, 7, 19, 8, 8}, Case{1, 2, 65, 136, 24, 72}, Case{2, 2, 3, 2, 4, 4}})
      for (const DType bias : {dtype, DType::kBool})
        for (const Shape& shape : {Shape{c.batch, c.heads, c.queries, c.keys}, Shape{1, 1, c.queries, c.keys},
                                   Shape{c.batch, 1, 1, c.keys}, Shape{1, c.heads, c.queries, c.keys}})
          expect_matches_oracle("cublaslt.attention", biased_spec(dtype, c, c.heads, {bias, shape}),
                                gemms_tolerance(dtype));
}

TEST_F(CudaAttention, ByGemmsTakesACausalOrderAndSharedHeads) {
  for (const DType dtype : cuda::kDTypes)
    for (const Case& c : {Case{2, 6, 33, 33, 8, 16}, Case{1, 6, 130, 72, 24, 24}, Case{1, 6, 40, 300, 64, 64}})
      for (const std::int64_t kv_heads : {1, 2, 6}) {
        expect_matches_oracle("cublaslt.attention", biased_spec(dtype, c, kv_heads, kNoBias, true),
                              gemms_tolerance(dtype));
        expect_matches_oracle("cublaslt.attention",
                              biased_spec(dtype, c, kv_heads, {DType::kBool, {1, 1, c.queries, c.keys}}, true),
                              gemms_tolerance(dtype));
      }
}

TEST_F(CudaAttention, ByGemmsTakesADiagonal) {
  for (const DType dtype : cuda::kDTypes)
    for (const Case& c : {Case{2, 2, 33, 40, 8, 16}, Case{1, 2, 130, 72, 24, 24}})
      for (const std::int64_t diagonal : {7L, c.keys - c.queries, -1L, -30L, -c.queries, -100000L, 100000L})
        for (const bool logsumexp : {false, true})
          expect_matches_oracle(
              "cublaslt.attention", biased_spec(dtype, c, 2, kNoBias, true, logsumexp, diagonal),
              logsumexp ? Tolerance{.relative_l2 = 1.2e-2, .max_ulps_of_peak = 1e5} : gemms_tolerance(dtype));
}

TEST_F(CudaAttention, ByGemmsTakesTheLargeHeadOfAnAutoencoder) {
  for (const DType dtype : cuda::kDTypes)
    expect_matches_oracle("cublaslt.attention", attention_spec(dtype, {1, 1, 300, 300, 512, 512}, 1 / std::sqrt(512.0)),
                          gemms_tolerance(dtype));
}

TEST_F(CudaAttention, ByGemmsTakesAFewQueriesAtATimeWhereScoresAreMany) {
  const Case c{1, 2, 8200, 4200, 8, 8};  // 263 MiB of scores
  for (const bool causal : {false, true}) {
    const OpSpec spec = biased_spec(DType::kF32, c, 1, kNoBias, causal);
    const std::vector<Operand> in = {dense_operand(spec.inputs[0]), dense_operand(spec.inputs[1]),
                                     dense_operand(spec.inputs[2])};
    const Operand out = dense_operand(spec.outputs[0]);
    const auto prepared = kernel_named("cublaslt.attention").prepare(spec, in, {&out, 1}, target());
    EXPECT_LE(prepared->scratch_bytes(), std::size_t{320} << 20U);
    const Comparison result = compare(kernel_named("cublaslt.attention"), spec, 1, gemms_tolerance(DType::kF32));
    EXPECT_TRUE(result.passed) << result.message;
  }
}

TEST_F(CudaAttention, GivesTheLogarithmOfTheSum) {
  const Case c{2, 4, 40, 72, 64, 64};
  for (const DType dtype : cuda::kDTypes)
    for (const TensorType& bias : {kNoBias, TensorType{DType::kBool, {2, 1, 40, 72}}, TensorType{dtype, {1, 4, 1, 72}}})
      expect_matches_oracle("cublaslt.attention", biased_spec(dtype, c, 2, bias, false, true),
                            {.relative_l2 = 1.2e-2, .max_ulps_of_peak = 1e5});
  const OpSpec spec = biased_spec(DType::kBF16, c, 2, kNoBias, false, true);
  if (const Support rejection = kernel_named("cudnn.attention").supports(spec, target()))
    GTEST_SKIP() << rejection->reason;
  expect_matches_oracle("cudnn.attention", spec, {.relative_l2 = 8e-3, .max_ulps_of_peak = 1e5});
}

TEST_F(CudaAttention, ByCudnnSharesHeadsOfKeysAndTakesLargeHeads) {
  for (const auto& [c, kv_heads] : {std::pair(Case{2, 6, 33, 40, 64, 64}, 1), std::pair(Case{2, 6, 33, 40, 64, 64}, 2),
                                    std::pair(Case{1, 2, 130, 65, 256, 256}, 2)}) {
    const OpSpec spec = biased_spec(DType::kBF16, c, kv_heads, kNoBias);
    if (const Support rejection = kernel_named("cudnn.attention").supports(spec, target()))
      GTEST_SKIP() << rejection->reason;
    if (!can_prepare("cudnn.attention", spec, target())) {  // heads of 256 are for some GPUs alone
      EXPECT_GT(c.dim, 128);
      continue;
    }
    expect_matches_oracle("cudnn.attention", spec, {.relative_l2 = 8e-3, .max_ulps_of_peak = 4});
  }
}

TEST_F(CudaAttention, ByCudnnMatchesTheOracle) {
  // Probabilities are rounded to bf16 before the second matmul.
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

TEST_F(CudaAttention, ByGemmsMatchesTheOracle) {
  for (const Case& c :
       {Case{1, 1, 1, 1, 1, 1}, Case{2, 3, 17, 19, 7, 5}, Case{2, 3, 72, 72, 64, 64}, Case{1, 2, 130, 65, 160, 128}}) {
    expect_matches_oracle("cublaslt.attention", attention_spec(DType::kF32, c), {.relative_l2 = 4e-6});
    expect_matches_oracle("cublaslt.attention", attention_spec(DType::kBF16, c),
                          {.relative_l2 = 1.2e-2, .max_ulps_of_peak = 4});
    expect_matches_oracle("cublaslt.attention", attention_spec(DType::kF16, c),
                          {.relative_l2 = 1.5e-3, .max_ulps_of_peak = 4});
  }
}

TEST_F(CudaAttention, ByGemmsTakesScoresThatWouldOverflowAnExponential) {
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
  EXPECT_EQ(reason(DType::kBF16, 36), "takes heads of up to 256 elements, a multiple of 8, not 36");
  EXPECT_EQ(reason(DType::kBF16, 512), "takes heads of up to 256 elements, a multiple of 8, not 512");
  const auto reason_of = [&](const OpSpec& spec) {
    const Support rejection = kernel_named("cudnn.attention").supports(spec, target());
    return rejection ? rejection->reason : "supported";
  };
  const Case c{1, 1, 4, 4, 8, 8};
  EXPECT_EQ(reason_of(biased_spec(DType::kBF16, c, 1, {DType::kBool, {1, 1, 4, 4}})), "takes no bias and no mask");
  EXPECT_EQ(reason_of(biased_spec(DType::kBF16, c, 1, kNoBias, true)), "has every query see every key");
  EXPECT_EQ(reason_of(biased_spec(DType::kBF16, c, 1, kNoBias, true, false, -2)), "has every query see every key");
}

}  // namespace
}  // namespace headroom
