#include <array>
#include <optional>

#include "kernels/conv/convolution_epilogue_cuda.hpp"
#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/elementwise/elementwise_cuda.hpp"
#include "kernels/vendor/cublaslt/rounding.hpp"
#include "testing/gpu_check.hpp"

namespace headroom::cublaslt {
namespace {

GemmSpec spec_of(DType dtype, std::int64_t k, bool has_bias) {
  constexpr std::int64_t kRows = 64, kColumns = 96;
  return {.dtype = dtype,
          .c_dtype = dtype,
          .m = kRows,
          .n = kColumns,
          .k = k,
          .a_row = k,
          .b_row = k,
          .c_row = kColumns,
          .has_bias = has_bias,
          .has_residual = true,
          .residual_row = kColumns};
}
GemmSpec without_residual(GemmSpec spec) {
  spec.has_residual = false, spec.residual_row = 0;
  return spec;
}

class GemmRounding : public cuda::KernelTest {
 protected:
  /// Runs a launch in the trial, with memory for f32 sums behind the workspace.
  bool rounds_once(const GemmSpec& spec, std::size_t workspace_bytes, const RoundingTrials::Launch& launch) {
    return RoundingTrials(backend()).rounds_once(spec, "some algorithm", workspace_bytes, launch);
  }
  [[nodiscard]] static std::size_t sums_bytes(const GemmSpec& spec) {
    return static_cast<std::size_t>(spec.m * spec.n) * sizeof(float);
  }
  /// c = sums + the given operands, in f32 and rounded once.
  static void add(void* stream, const GemmSpec& spec, const void* sums, const void* bias, const void* residual,
                  void* c) {
    const Shape row{0, 1}, rows{spec.n, 1};
    cuda::launch_convolution_epilogue(stream,
                                      {.has_bias = bias != nullptr,
                                       .has_residual = residual != nullptr,
                                       .dtype = spec.dtype,
                                       .bias = spec.dtype,
                                       .grid = cuda::longest_grid<4>(Shape{spec.m, spec.n}, {row, rows, rows, rows})},
                                      static_cast<const float*>(sums), bias, residual, c);
  }
  /// c = c + other, which has the strides, rounded again.
  static void add_rounded(void* stream, const GemmSpec& spec, const void* other, const Shape& strides, void* c) {
    const Shape rows{spec.n, 1};
    const std::array<const void*, 2> in{c, other};
    cuda::launch_elementwise(stream,
                             {.op = Op::kAdd,
                              .dtype = spec.dtype,
                              .scalars = {},
                              .grid = cuda::longest_grid<4>(Shape{spec.m, spec.n}, {rows, strides, Shape{0, 0}, rows})},
                             in.data(), c);
  }
};

TEST_F(GemmRounding, IsToldFromTwoRoundings) {
  for (const DType dtype : {DType::kBF16, DType::kF16})
    for (const bool has_bias : {false, true}) {
      SCOPED_TRACE(fmt::format("{}{}", dtype, has_bias ? " bias" : ""));
      const GemmSpec spec = spec_of(dtype, 16, has_bias);
      GemmSpec plain = without_residual(spec);
      plain.has_bias = false, plain.c_dtype = DType::kF32;
      const Gemm multiply(plain, target());
      const std::size_t bytes = sums_bytes(spec) + multiply.workspace_bytes();
      const auto with_sums = [&](const auto& follow) {
        return [&, follow](void* stream, const GemmOperands& operands, void* workspace) {
          multiply.run(stream, {.a = operands.a, .b = operands.b, .c = workspace},
                       static_cast<std::byte*>(workspace) + sums_bytes(spec));
          follow(stream, operands, workspace);
        };
      };
      EXPECT_TRUE(rounds_once(spec, bytes, with_sums([&](void* stream, const GemmOperands& operands, void* sums) {
                                add(stream, spec, sums, operands.bias, operands.residual, operands.c);
                              })));
      EXPECT_FALSE(rounds_once(spec, bytes, with_sums([&](void* stream, const GemmOperands& operands, void* sums) {
                                 add(stream, spec, sums, operands.bias, nullptr, operands.c);
                                 add_rounded(stream, spec, operands.residual, Shape{spec.n, 1}, operands.c);
                               })));
      if (!has_bias) continue;
      EXPECT_FALSE(rounds_once(spec, bytes, with_sums([&](void* stream, const GemmOperands& operands, void* sums) {
                                 add(stream, spec, sums, nullptr, operands.residual, operands.c);
                                 add_rounded(stream, spec, operands.bias, Shape{0, 1}, operands.c);
                               })));
    }
}

TEST_F(GemmRounding, IsTriedOnceForEachGemmAndAlgorithm) {
  RoundingTrials trials(backend());
  const GemmSpec spec = spec_of(DType::kBF16, 16, false), other = spec_of(DType::kBF16, 32, false);
  int launches = 0;
  const auto refuse = [&](void*, const GemmOperands&, void*) {
    ++launches;
    fail("refused");
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(trials.rounds_once(spec, "first", 0, refuse));
    EXPECT_FALSE(trials.rounds_once(spec, "second", 0, refuse));
    EXPECT_FALSE(trials.rounds_once(other, "first", 0, refuse));
  }
  EXPECT_EQ(launches, 3);
  EXPECT_EQ(backend().memory_use().total, 0U);
}

/// The library's first algorithm for sums of two terms rounds before it adds the residual (cuBLASLt 13.0).
TEST_F(GemmRounding, IsDoneOnceByEveryAlgorithmThatIsTaken) {
  int tried = 0;
  for (const DType dtype : {DType::kBF16, DType::kF16})
    for (const std::int64_t k : {1, 2, 8})
      for (const bool has_bias : {false, true}) {
        const GemmSpec spec = spec_of(dtype, k, has_bias);
        const std::optional<Gemm> gemm = Gemm::find(spec, target());
        if (!gemm) continue;
        ++tried;
        EXPECT_TRUE(rounds_once(spec, gemm->workspace_bytes(),
                                [&](void* stream, const GemmOperands& operands, void* workspace) {
                                  gemm->run(stream, operands, workspace);
                                }))
            << to_text(spec) << " by " << gemm->implementation();
      }
  EXPECT_GT(tried, 0);
}

}  // namespace
}  // namespace headroom::cublaslt
