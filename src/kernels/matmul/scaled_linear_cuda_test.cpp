#include "kernels/core/cuda/tuner_of.hpp"
#include "kernels/vendor/cublaslt/gemm.hpp"
#include "testing/gpu_check.hpp"
#include "testing/own_cache.hpp"

namespace headroom {
namespace {

OpSpec scaled_spec(const Shape& x, std::int64_t n, DType made, bool has_bias, Activation activation = Activation::kNone,
                   DType bias = DType::kF64) {
  const Shape rows(x.dims().first(x.dims().size() - 1));
  std::vector<TensorType> inputs = {
      {DType::kF8E4M3, x}, {DType::kF32, rows}, {DType::kF8E4M3, {n, x[-1]}}, {DType::kF32, {n}}};
  if (has_bias) inputs.push_back({bias == DType::kF64 ? made : bias, {n}});
  return make_spec(Op::kScaledLinear, std::move(inputs),
                   {{attr::kEpilogue, Epilogue(activation)}, {attr::kDType, made}}, {false, false, true, true, true});
}

/// The same with a residual, and scales and a bias that a gate was put into.
OpSpec gated_spec(const Shape& x, std::int64_t n, DType made, bool has_bias = true) {
  OpSpec spec = scaled_spec(x, n, made, has_bias);
  spec.attributes = spec.attributes.with(attr::kEpilogue, Epilogue().then(Op::kAdd));
  spec.inputs.push_back(spec.outputs[0]);
  spec.is_weight = {false, false, true, false, false, false};
  return spec;
}

/// GPUs with FP8 tensor cores.
class CublasltScaledLinear : public cuda::KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (!IsSkipped() && target().compute_capability < 89)
      GTEST_SKIP() << "FP8 tensor cores came with sm_89; this GPU is sm_" << target().compute_capability;
  }
};

/// Tensor cores add up FP8 products in fewer bits than f32 has (fast accumulation).
Tolerance tolerance_of(DType made) {
  return made == DType::kF32 ? Tolerance{.relative_l2 = 2e-3, .max_ulps_of_peak = 1e5}
                             : Tolerance{.relative_l2 = 8e-3, .max_ulps_of_peak = made == DType::kBF16 ? 3.0 : 24.0};
}

TEST_F(CublasltScaledLinear, MatchesTheOracleForEveryShapeAndActivation) {
  struct Case {
    Shape x;
    std::int64_t n;
  };
  for (const DType made : {DType::kBF16, DType::kF16, DType::kF32})
    for (const Case& c :
         {Case{{1, 16}, 16}, Case{{5, 32}, 48}, Case{{1, 64}, 208}, Case{{2, 17, 32}, 48}, Case{{3, 2, 4, 16}, 32},
          Case{{20, 5, 32}, 48}, Case{{130, 256}, 272}, Case{{2, 33, 192}, 576}})
      for (const bool has_bias : {false, true})
        for (const Activation activation :
             {Activation::kNone, Activation::kGeluTanh, Activation::kGeluErf, Activation::kSilu, Activation::kRelu}) {
          SCOPED_TRACE(fmt::format("{} n={} bias={} {}", made, c.n, has_bias, name_of(activation)));
          expect_matches_oracle("cublaslt.scaled_linear", scaled_spec(c.x, c.n, made, has_bias, activation),
                                tolerance_of(made));
        }
  expect_matches_oracle("cublaslt.scaled_linear",
                        scaled_spec({5, 32}, 48, DType::kBF16, true, Activation::kNone, DType::kF32),
                        tolerance_of(DType::kBF16));
}

/// Weights of files in f8e5m2, which the library takes as one of both operands.
TEST_F(CublasltScaledLinear, TakesAWeightInF8E5M2) {
  for (const DType made : {DType::kBF16, DType::kF16, DType::kF32})
    for (const auto& [x, n] : std::vector<std::pair<Shape, std::int64_t>>{
             {{1, 16}, 16}, {{5, 32}, 48}, {{2, 17, 32}, 48}, {{1, 272, 192}, 768}})
      for (const bool fast : {false, true}) {
        OpSpec spec = scaled_spec(x, n, made, true, Activation::kGeluTanh);
        spec.inputs[2].dtype = DType::kF8E5M2;
        spec.attributes = spec.attributes.with(attr::kFastSums, fast);
        expect_matches_oracle("cublaslt.scaled_linear", spec, tolerance_of(made));
      }
}

TEST_F(CublasltScaledLinear, AddsAResidual) {
  for (const DType made : {DType::kBF16, DType::kF16, DType::kF32})
    for (const auto& [x, n] : std::vector<std::pair<Shape, std::int64_t>>{{{1, 16}, 16},
                                                                          {{5, 32}, 48},
                                                                          {{2, 17, 32}, 48},
                                                                          {{3, 2, 4, 16}, 32},
                                                                          {{130, 256}, 272},
                                                                          {{1, 4608, 64}, 128}}) {
      const OpSpec spec = gated_spec(x, n, made);
      expect_matches_oracle("cublaslt.scaled_linear", spec, tolerance_of(made));
      EXPECT_EQ(kernel_named("cublaslt.scaled_linear").may_overwrite(spec, 5, 0), made == DType::kF32)
          << "over 16 bits the library rounds twice";
      EXPECT_FALSE(kernel_named("cublaslt.scaled_linear").may_overwrite(spec, 4, 0));
      expect_matches_oracle("cublaslt.scaled_linear", gated_spec(x, n, made, false), tolerance_of(made));
    }
}

/// A model's GEMM: scales, bias and GELU in the library's epilogue, whatever else the shape requires.
TEST_F(CublasltScaledLinear, RunsInFp8WithItsEpilogueOnHopper) {
  if (target().compute_capability != 90) GTEST_SKIP() << "epilogues with a scale for each row are Hopper's";
  for (const DType made : {DType::kBF16, DType::kF16})
    for (const Activation activation : {Activation::kNone, Activation::kGeluTanh}) {
      const OpSpec spec = scaled_spec({1, 272, 192}, 768, made, true, activation);
      EXPECT_EQ(kernel_named("cublaslt.scaled_linear").compute_type(spec), DType::kF8E4M3);
      std::vector<Operand> inputs;
      for (const TensorType& type : spec.inputs) inputs.push_back(dense_operand(type));
      const Operand y = dense_operand(spec.outputs[0]);
      const auto prepared = kernel_named("cublaslt.scaled_linear").prepare(spec, inputs, {&y, 1}, target());
      EXPECT_EQ(prepared->implementation().find("cuda"), std::string::npos) << prepared->implementation();
    }
}

TEST_F(CublasltScaledLinear, AddsAResidualInItsEpilogueOnHopper) {
  if (target().compute_capability != 90) GTEST_SKIP() << "epilogues with a scale for each row are Hopper's";
  const OpSpec spec = gated_spec({1, 272, 192}, 768, DType::kBF16);
  std::vector<Operand> inputs;
  for (const TensorType& type : spec.inputs) inputs.push_back(dense_operand(type));
  const Operand y = dense_operand(spec.outputs[0]);
  const auto prepared = kernel_named("cublaslt.scaled_linear").prepare(spec, inputs, {&y, 1}, target());
  EXPECT_EQ(prepared->implementation().find("cuda"), std::string::npos) << prepared->implementation();
}

TEST_F(CublasltScaledLinear, TakesOverWhatIsFastestForOtherRows) {
  if (target().compute_capability != 90) GTEST_SKIP() << "epilogues with a scale for each row are Hopper's";
  using Tuner = cuda::TunerOf<cublaslt::version_text>;
  const cuda::OwnCache cache;
  for (const std::int64_t n : {768, 8192}) {  // tried, and large enough to be measured
    const auto work = [&](std::int64_t rows) {
      return cublaslt::trial_of({.dtype = DType::kF8E4M3,
                                 .c_dtype = DType::kBF16,
                                 .has_scales = true,
                                 .m = rows,
                                 .n = n,
                                 .k = 192,
                                 .a_row = 192,
                                 .b_row = 192,
                                 .c_row = n,
                                 .has_bias = true});
    };
    const OpSpec spec = scaled_spec({1, 304, 192}, n, DType::kBF16, true);
    const std::string algorithm = measured_algorithm<Tuner>("cublaslt.scaled_linear", spec, work(304));
    backend().context<Tuner>()->keep(work(272), algorithm, 1);
    EXPECT_THAT(take_over("cublaslt.scaled_linear", spec, tolerance_of(DType::kBF16)),
                testing::EndsWith(", taken over from size 272"));
  }
}

TEST_F(CublasltScaledLinear, RunsUnmeasuredWithoutATunedSize) {
  const cuda::OwnCache cache;
  const auto spec = [](std::int64_t n) { return scaled_spec({1, 272, 192}, n, DType::kBF16, true); };
  static_cast<void>(prepare_dense("cublaslt.scaled_linear", spec(768), target()));
  EXPECT_THAT(take_over("cublaslt.scaled_linear", spec(1024), tolerance_of(DType::kBF16)),
              testing::Not(testing::HasSubstr("taken over")));
}

TEST_F(CublasltScaledLinear, RejectsWithReasons) {
  const auto reason = [&](const OpSpec& spec, int compute_capability) {
    DeviceTarget gpu = target();
    gpu.compute_capability = compute_capability;
    const Support rejection = kernel_named("cublaslt.scaled_linear").supports(spec, gpu);
    return rejection ? rejection->reason : "supported";
  };
  const OpSpec spec = scaled_spec({8, 32}, 48, DType::kBF16, true);
  EXPECT_EQ(reason(spec, 90), "supported");
  EXPECT_EQ(reason(spec, 86), "FP8 tensor cores came with sm_89; this GPU is sm_86");
  EXPECT_EQ(reason(scaled_spec({8, 24}, 48, DType::kBF16, true), 90),
            "takes channels in multiples of 16, not 24 to 48");
  EXPECT_EQ(reason(scaled_spec({0, 32}, 48, DType::kBF16, true), 90), "an operand has no elements");
  EXPECT_EQ(reason(make_spec(Op::kRelu, {{DType::kF32, {2}}}), 90), "runs scaled_linear, not relu");
}

}  // namespace
}  // namespace headroom
