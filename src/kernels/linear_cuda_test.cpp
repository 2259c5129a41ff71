#include "kernels/cuda/gpu_check.hpp"
#include "kernels/cuda_kernels.hpp"

namespace headroom {
namespace {

using CublasltLinear = cuda::KernelTest;
using CublasltMatmul = cuda::KernelTest;

OpSpec linear_spec(DType dtype, const Shape& x, std::int64_t n, bool has_bias, const std::string& activation) {
  std::vector<TensorType> inputs = {{dtype, x}, {dtype, {n, x[-1]}}};
  std::vector<bool> is_weight = {false, true};
  if (has_bias) {
    inputs.push_back({dtype, {n}});
    is_weight.push_back(true);
  }
  return make_spec(Op::kLinear, std::move(inputs), {{"activation", activation}}, std::move(is_weight));
}

/// The library's epilogue computes gelu with a tanh that is good to about 5e-6, and an activation that is a kernel of
/// its own reads what was rounded once already.
Tolerance tolerance_of(DType dtype, const std::string& activation) {
  if (dtype == DType::kF32 && activation == "gelu_tanh") return {.relative_l2 = 1e-5};
  if (dtype == DType::kBF16 && activation != "none") return {.relative_l2 = 8e-3, .max_ulps_of_peak = 3};
  return default_tolerance(dtype);
}

TEST_F(CublasltLinear, MatchesTheOracleForEveryShapeAndActivation) {
  struct Case {
    Shape x;
    std::int64_t n;
  };
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const Case& c : {Case{{1, 1}, 1}, Case{{5, 3}, 7}, Case{{1, 64}, 200}, Case{{2, 17, 32}, 48},
                          Case{{2, 9, 33}, 65}, Case{{3, 2, 4, 16}, 24}, Case{{130, 256}, 264}})
      for (const bool has_bias : {false, true})
        for (const char* activation : {"none", "gelu_tanh", "gelu", "silu"}) {
          SCOPED_TRACE(fmt::format("n={} bias={} {}", c.n, has_bias, activation));
          expect_matches_oracle(cublaslt_linear(), linear_spec(dtype, c.x, c.n, has_bias, activation),
                                tolerance_of(dtype, activation));
        }
}

TEST_F(CublasltLinear, RejectsWithReasons) {
  const auto reason = [&](const OpSpec& spec) {
    const Support rejection = cublaslt_linear().supports(spec, target());
    return rejection ? rejection->reason : "supported";
  };
  EXPECT_EQ(reason(linear_spec(DType::kF64, {2, 4}, 3, false, "none")), "takes f32, bf16 or f16, not f64");
  EXPECT_EQ(reason(linear_spec(DType::kF32, {0, 4}, 3, false, "none")), "an operand has no elements");
  EXPECT_EQ(reason(make_spec(Op::kRelu, {{DType::kF32, {2}}})), "runs linear, not relu");
}

TEST_F(CublasltMatmul, MatchesTheOracleForEveryShapeAndStrides) {
  struct Case {
    std::vector<std::int64_t> batch;
    std::int64_t m, n, k;
  };
  const std::vector<Case> cases = {{{}, 1, 1, 1},        {{}, 5, 7, 3},           {{}, 1, 64, 200},
                                   {{3}, 4, 1, 9},       {{2, 3}, 17, 19, 32},    {{1, 4}, 33, 33, 16},
                                   {{2, 1, 3}, 6, 5, 4}, {{2, 2, 1, 2}, 3, 8, 5}, {{2, 6}, 85, 85, 32},
                                   {{2, 6}, 85, 32, 85}, {{2, 2}, 24, 40, 1}};
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const Case& c : cases)
      for (const bool transpose_b : {false, true}) {
        SCOPED_TRACE(
            fmt::format("batch rank {} m={} n={} k={} transpose_b={}", c.batch.size(), c.m, c.n, c.k, transpose_b));
        Shape a{std::span(c.batch)}, b{std::span(c.batch)};
        for (const std::int64_t extent : {c.m, c.k}) a.push_back(extent);
        for (const std::int64_t extent : transpose_b ? std::vector{c.n, c.k} : std::vector{c.k, c.n})
          b.push_back(extent);
        expect_matches_oracle(cublaslt_matmul(), make_spec(Op::kMatmul, {{dtype, a}, {dtype, b}},
                                                           {{"transpose_b", std::int64_t{transpose_b}}}));
      }
}

}  // namespace
}  // namespace headroom
