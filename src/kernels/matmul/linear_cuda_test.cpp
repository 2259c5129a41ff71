#include <filesystem>

#include "kernels/core/cuda/tuner_of.hpp"
#include "kernels/vendor/cublaslt/gemm.hpp"
#include "testing/gpu_check.hpp"
#include "testing/own_cache.hpp"

namespace headroom {
namespace {

using CudaLinear = cuda::KernelTest;
using CublasltMatmul = cuda::KernelTest;

/// With as many operands of the result's type as the epilogue has.
OpSpec linear_spec(DType dtype, const Shape& x, std::int64_t n, bool has_bias, std::string_view epilogue,
                   bool tf32 = false) {
  std::vector<TensorType> inputs = {{dtype, x}, {dtype, {n, x[-1]}}};
  std::vector<bool> is_weight = {false, true};
  if (has_bias) {
    inputs.push_back({dtype, {n}});
    is_weight.push_back(true);
  }
  const Epilogue end = Epilogue::parse(epilogue);
  TensorType result{dtype, x};
  result.shape.set(-1, n);
  inputs.insert(inputs.end(), end.operand_count(), result);
  return make_spec(Op::kLinear, std::move(inputs), {{attr::kEpilogue, end}, {attr::kTf32, tf32}}, std::move(is_weight));
}

/// The library's epilogue computes gelu with a tanh that is accurate to about 5e-6. An activation in a kernel of its
/// own reads a value that was rounded once already.
Tolerance tolerance_of(DType dtype, const std::string& epilogue) {
  if (dtype == DType::kF32 && epilogue == "gelu_tanh(sum)") return {.relative_l2 = 1e-5};
  if (dtype == DType::kBF16 && epilogue != "sum") return {.relative_l2 = 8e-3, .max_ulps_of_peak = 3};
  if (dtype == DType::kF16 && epilogue != "sum") return {.relative_l2 = 3e-3, .max_ulps_of_peak = 4};
  return default_tolerance(dtype);
}

TEST_F(CudaLinear, MatchesTheOracleForEveryShapeAndEpilogue) {
  struct Case {
    Shape x;
    std::int64_t n;
  };
  for (const DType dtype : cuda::kDTypes)
    for (const Case& c : {Case{{1, 1}, 1}, Case{{5, 3}, 7}, Case{{1, 64}, 200}, Case{{2, 17, 32}, 48},
                          Case{{2, 9, 33}, 65}, Case{{3, 2, 4, 16}, 24}, Case{{130, 256}, 264}})
      for (const bool has_bias : {false, true})
        for (const char* epilogue :
             {"sum", "gelu_tanh(sum)", "gelu_erf(sum)", "silu(sum)", "relu(sum)", "add(e0, sum)"}) {
          if (c.n == 1 && std::string_view(epilogue) == "gelu_tanh(sum)")
            continue;  // no peak that an error is small next to
          SCOPED_TRACE(fmt::format("n={} bias={} {}", c.n, has_bias, epilogue));
          expect_matches_oracle("fastest.linear", linear_spec(dtype, c.x, c.n, has_bias, epilogue),
                                tolerance_of(dtype, epilogue));
        }
}

/// Small row counts run on a kernel of ours if rows are whole packs. Cases: part of a warp's prefetch distance,
/// several rounds, and output counts that are no multiple of a warp's or a block's.
TEST_F(CudaLinear, MatchesTheOracleForAFewRows) {
  for (const DType dtype : cuda::kDTypes)
    for (const std::int64_t rows : {1, 2, 3, 4})
      for (const auto& [k, n] : {std::pair{8, 1}, {264, 17}, {1280, 320}, {3080, 33}}) {
        SCOPED_TRACE(fmt::format("n={}", n));
        const OpSpec spec = linear_spec(dtype, {rows, k}, n, n % 2 == 1, n == 320 ? "silu(sum)" : "sum");
        EXPECT_EQ(prepare_dense("fastest.linear", spec, target())->implementation(), "few rows");
        expect_matches_oracle("fastest.linear", spec);
      }
  const OpSpec odd = linear_spec(DType::kBF16, {1, 33}, 16, true, "sum");
  EXPECT_THAT(prepare_dense("fastest.linear", odd, target())->implementation(), testing::StartsWith("cuBLASLt"));
}

/// Whichever algorithm was the fastest.
TEST_F(CudaLinear, MatchesTheOracleWhereItsAlgorithmsAreTimed) {
  for (const DType dtype : cuda::kDTypes)
    for (const char* epilogue : {"sum", "gelu_tanh(sum)", "gelu_erf(sum)", "add(sum, e0)"}) {
      SCOPED_TRACE(epilogue);
      expect_matches_oracle("fastest.linear", linear_spec(dtype, {2, 512, 320}, 640, true, epilogue),
                            tolerance_of(dtype, epilogue));
      expect_matches_oracle("fastest.linear", linear_spec(dtype, {77, 1024}, 2048, false, epilogue),
                            tolerance_of(dtype, epilogue));
    }
}

/// TF32 keeps 11 significant bits, so a matmul of f32 numbers is off by a few 1e-4: more than f32, less than bf16.
TEST_F(CudaLinear, RoundsToTf32WhereItMay) {
  const OpSpec exact = linear_spec(DType::kF32, {130, 256}, 264, true, "sum");
  const OpSpec rounded = linear_spec(DType::kF32, {130, 256}, 264, true, "sum", true);
  EXPECT_EQ(kernel_named("fastest.linear").compute_name(exact), "f32");
  EXPECT_EQ(kernel_named("fastest.linear").compute_name(rounded), "tf32");
  EXPECT_EQ(kernel_named("fastest.linear").compute_name(linear_spec(DType::kBF16, {2, 16}, 8, false, "sum", true)),
            "bf16");
  const Comparison comparison =
      compare(kernel_named("fastest.linear"), rounded, 1, {.relative_l2 = 1e-3, .max_ulps_of_peak = 1e5});
  EXPECT_TRUE(comparison.passed) << comparison.message;
  EXPECT_GE(comparison.relative_l2, 1e-5) << "this is not TF32";
}

/// A GEMM that is worth measuring takes its algorithm from disk the second time.
TEST_F(CudaLinear, KeepsTheFastestAlgorithm) {
  const cuda::OwnCache cache;
  const auto kept = [&] {
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(cache.folder()))
      if (entry.is_regular_file()) ++files;
    return files;
  };
  const OpSpec spec = linear_spec(DType::kBF16, {1040, 1024}, 1024, true, "sum");
  std::vector<Operand> inputs;
  for (const TensorType& type : spec.inputs) inputs.push_back(dense_operand(type));
  const Operand y = dense_operand(spec.outputs[0]);
  const std::string first = kernel_named("fastest.linear").prepare(spec, inputs, {&y, 1}, target())->implementation();
  EXPECT_NE(first.find("fastest"), std::string::npos) << first;  // of the library, or of ours
  const std::size_t files = kept();
  EXPECT_GT(files, 0U);
  EXPECT_EQ(kernel_named("fastest.linear").prepare(spec, inputs, {&y, 1}, target())->implementation(), first);
  EXPECT_EQ(kept(), files);
}

/// Takes the algorithm of its GEMM if nothing is known to be faster for these rows.
TEST_F(CudaLinear, TakesOverWhatIsFastestForOtherRows) {
  using Tuner = cuda::TunerOf<cublaslt::version_text>;
  const cuda::OwnCache cache;
  for (const DType dtype : cuda::kDTypes) {
    const auto work = [&](std::int64_t rows) {
      return cublaslt::trial_of({.dtype = dtype,
                                 .c_dtype = dtype,
                                 .m = rows,
                                 .n = 1024,
                                 .k = 1024,
                                 .a_row = 1024,
                                 .b_row = 1024,
                                 .c_row = 1024,
                                 .has_bias = true});
    };
    const OpSpec spec = linear_spec(dtype, {2, 488, 1024}, 1024, true, "sum");
    const std::string algorithm = measured_algorithm<Tuner>("fastest.linear", spec, work(976));
    backend().context<Tuner>()->keep(work(1040), algorithm, 1);
    EXPECT_THAT(take_over("fastest.linear", spec, tolerance_of(dtype, "sum")),
                testing::EndsWith(", taken over from size 1040"));
  }
}

/// Without a tuned size the choice is a guess, and is not called the fastest.
TEST_F(CudaLinear, GuessesWithoutATunedSize) {
  const cuda::OwnCache cache;
  const auto spec = [](std::int64_t n) { return linear_spec(DType::kBF16, {1040, 1024}, n, true, "sum"); };
  static_cast<void>(prepare_dense("fastest.linear", spec(1024), target()));
  EXPECT_THAT(take_over("fastest.linear", spec(2048), tolerance_of(DType::kBF16, "sum")),
              testing::Not(testing::HasSubstr("taken over")));
}

TEST_F(CublasltMatmul, TakesOverWhatIsFastestForAnotherBatch) {
  const cuda::OwnCache cache;
  using Tuner = cuda::TunerOf<cublaslt::version_text>;
  const auto work = [](std::int64_t batch, std::int64_t rows) {
    return cublaslt::trial_of({.dtype = DType::kBF16,
                               .c_dtype = DType::kBF16,
                               .m = rows,
                               .n = 512,
                               .k = 256,
                               .a_row = 256,
                               .b_row = 256,
                               .c_row = 512,
                               .batch = batch,
                               .a_batch = rows * 256,
                               .b_batch = std::int64_t{512} * 256,
                               .c_batch = rows * 512});
  };
  const OpSpec spec = make_spec(Op::kMatmul, {{DType::kBF16, {6, 200, 256}}, {DType::kBF16, {6, 512, 256}}},
                                {{"transpose_b", std::int64_t{1}}});
  const std::string algorithm = measured_algorithm<Tuner>("cublaslt.matmul", spec, work(6, 200));
  backend().context<Tuner>()->keep(work(8, 256), algorithm, 1);
  EXPECT_THAT(take_over("cublaslt.matmul", spec, tolerance_of(DType::kBF16, "sum")),
              testing::EndsWith(", taken over from size 8x256"));
}

TEST_F(CudaLinear, RejectsWithReasons) {
  const auto reason = [&](const OpSpec& spec) {
    const Support rejection = kernel_named("fastest.linear").supports(spec, target());
    return rejection ? rejection->reason : "supported";
  };
  EXPECT_EQ(reason(linear_spec(DType::kF64, {2, 4}, 3, false, "sum")), "takes f32, bf16 or f16, not f64");
  EXPECT_EQ(reason(linear_spec(DType::kF32, {0, 4}, 3, false, "sum")), "an operand has no elements");
  EXPECT_EQ(reason(linear_spec(DType::kF32, {2, 4}, 3, true, "mul(sum, e0)")),
            "takes an activation or a residual after the sum, not the epilogue mul(sum, e0)");
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
  for (const DType dtype : cuda::kDTypes)
    for (const Case& c : cases)
      for (const auto& [transpose_a, transpose_b] :
           {std::pair(false, false), std::pair(false, true), std::pair(true, false), std::pair(true, true)}) {
        SCOPED_TRACE(fmt::format("batch rank {} m={} n={} k={} transpose_a={} transpose_b={}", c.batch.size(), c.m, c.n,
                                 c.k, transpose_a, transpose_b));
        Shape a{std::span(c.batch)}, b{std::span(c.batch)};
        for (const std::int64_t extent : transpose_a ? std::vector{c.k, c.m} : std::vector{c.m, c.k})
          a.push_back(extent);
        for (const std::int64_t extent : transpose_b ? std::vector{c.n, c.k} : std::vector{c.k, c.n})
          b.push_back(extent);
        expect_matches_oracle("cublaslt.matmul",
                              make_spec(Op::kMatmul, {{dtype, a}, {dtype, b}},
                                        {{attr::kTransposeA, transpose_a}, {attr::kTransposeB, transpose_b}}));
      }
}

}  // namespace
}  // namespace headroom
