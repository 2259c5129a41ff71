#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "testing/onednn_target.hpp"

namespace headroom {
namespace {

using onednn::prepare_dense;
using onednn::test_target;

constexpr Activation kActivations[] = {Activation::kNone, Activation::kGeluTanh, Activation::kGeluErf,
                                       Activation::kSilu, Activation::kRelu};

OpSpec scaled_spec(const Shape& x, std::int64_t n, DType y = DType::kF32, bool bias = true,
                   Activation activation = Activation::kNone, bool is_weight = true) {
  Shape rows(x.dims().first(x.dims().size() - 1));
  std::vector<TensorType> inputs{
      {DType::kI8, x}, {DType::kF32, rows}, {DType::kI8, Shape{n, x[-1]}}, {DType::kF32, Shape{n}}};
  if (bias) inputs.push_back({DType::kF32, Shape{n}});
  return make_spec(Op::kScaledLinear, std::move(inputs), {{attr::kEpilogue, Epilogue(activation)}, {attr::kDType, y}},
                   {false, false, is_weight, is_weight, is_weight});
}

/// Expects agreement with the oracle from the general kernel, and from oneDNN's, or, without VNNI, a rejection that
/// names it. On AMX oneDNN has no int8 GEMM for some shapes.
void expect_agrees(const OpSpec& spec, TestStrides strides, int threads) {
  DeviceTarget target = test_target();
  target.threads = threads;
  const Comparison plain = compare_with_oracle(kernel_named("plain.scaled_linear"), spec, target, 1,
                                               default_tolerance(spec.outputs[0].dtype), strides);
  EXPECT_TRUE(plain.passed) << plain.message;
  if (target.cpu_isa < CpuIsa::kAvx512Vnni) {
    const Support rejection = kernel_named("onednn.scaled_linear").supports(spec, target);
    ASSERT_TRUE(rejection.has_value());
    EXPECT_NE(rejection->reason.find("VNNI"), std::string::npos) << rejection->reason;
    return;
  }
  if (const Support rejection = kernel_named("onednn.scaled_linear").supports(spec, target)) {
    EXPECT_EQ(target.cpu_isa, CpuIsa::kAmx) << rejection->reason;
    EXPECT_NE(rejection->reason.find("oneDNN has only"), std::string::npos) << rejection->reason;
    return;
  }
  const Comparison comparison = compare_with_oracle(kernel_named("onednn.scaled_linear"), spec, target, 1,
                                                    default_tolerance(spec.outputs[0].dtype), strides);
  EXPECT_TRUE(comparison.passed) << comparison.message;
}

TEST(OnednnScaledLinear, AgreesForEveryShapeAndStrides) {
  struct Case {
    Shape x;
    std::int64_t n;
  };
  const std::vector<Case> cases = {{{1, 1}, 1},    {{5}, 3},          {{1, 192}, 17},      {{7, 5}, 1},
                                   {{31, 33}, 65}, {{2, 3, 5}, 7},    {{4, 1, 8}, 16},     {{3, 2, 5, 31}, 9},
                                   {{2, 60}, 48},  {{300, 192}, 200}, {{2, 129, 64}, 128}, {{3, 130, 60}, 240}};
  for (const Case& c : cases)
    for (const DType y : {DType::kF32, DType::kBF16})
      for (const bool is_weight : {false, true})
        for (const TestStrides strides : {TestStrides::kDense, TestStrides::kPadded, TestStrides::kPermuted})
          for (const int threads : {1, 3}) {
            SCOPED_TRACE(fmt::format("{} x{} n={} weight={} strides={} threads={}", y, c.x, c.n, is_weight,
                                     static_cast<int>(strides), threads));
            expect_agrees(scaled_spec(c.x, c.n, y, true, Activation::kNone, is_weight), strides, threads);
          }
}

TEST(OnednnScaledLinear, AgreesForEveryBiasAndActivation) {
  for (const DType y : {DType::kF32, DType::kBF16})
    for (const bool bias : {false, true})
      for (const Activation activation : kActivations) {
        SCOPED_TRACE(fmt::format("{} bias={} {}", y, bias, name_of(activation)));
        expect_agrees(scaled_spec(Shape{2, 19, 40}, 72, y, bias, activation), TestStrides::kDense, 2);
      }
}

/// The largest sums: i32 holds them, the 16 bits in which older CPUs add up pairs of products do not.
TEST(OnednnScaledLinear, SumsDoNotOverflow) {
  const DeviceTarget target = test_target();
  if (target.cpu_isa < CpuIsa::kAvx512Vnni) GTEST_SKIP() << "no int8 products here";
  constexpr std::int64_t kIn = 4096, kOut = 16;
  const OpSpec spec = scaled_spec(Shape{2, kIn}, kOut, DType::kF32, false, Activation::kNone, false);
  const auto prepared = prepare_dense("onednn.scaled_linear", spec, target);
  std::vector<std::int8_t> x(2 * kIn, 127), weight(kOut * kIn, 127);
  std::fill(weight.begin() + kIn, weight.begin() + 2 * kIn, std::int8_t{-127});
  const std::vector<float> x_scale(2, 1), w_scale(kOut, 1);
  std::vector<float> y(2 * kOut);
  const auto backend = make_backend(DeviceKind::kCpu);
  const auto stream = backend->make_stream();
  const Buffer scratch = backend->allocate(prepared->scratch_bytes(), MemoryCategory::kWorkspace);
  const DevicePointer sources[] = {host_place(x.data()), host_place(x_scale.data()), host_place(weight.data()),
                                   host_place(w_scale.data())};
  const DevicePointer results[] = {host_place(y.data())};
  prepared->launch({.stream = *stream, .inputs = sources, .outputs = results, .scratch = scratch.at()});
  EXPECT_EQ(y[0], 127.0F * 127 * kIn);
  EXPECT_EQ(y[1], -127.0F * 127 * kIn);
}

TEST(OnednnScaledLinear, IsAnInt8Implementation) {
  const DeviceTarget target = test_target();
  if (target.cpu_isa < CpuIsa::kAvx512Vnni) GTEST_SKIP() << "no int8 products here";
  for (const Shape& x : {Shape{20, 272, 192}, Shape{16, 60}, Shape{1, 192}, Shape{1, 33, 64}})
    for (const bool is_weight : {false, true}) {
      const OpSpec spec = scaled_spec(x, 192, DType::kF32, true, Activation::kNone, is_weight);
      EXPECT_EQ(kernel_named("onednn.scaled_linear").compute_type(spec), DType::kI8);
      if (kernel_named("onednn.scaled_linear").supports(spec, target)) {
        EXPECT_EQ(target.cpu_isa, CpuIsa::kAmx) << x.to_string();
        EXPECT_LT(x.numel(), 1'000'000) << x.to_string();
        continue;
      }
      const std::string implementation = prepare_dense("onednn.scaled_linear", spec, target)->implementation();
      const bool tiles = implementation.find("amx_int8") != std::string::npos;
      const bool vectors = implementation.find("vnni") != std::string::npos;  // with AMX too, for a few rows
      EXPECT_TRUE(tiles || vectors) << implementation << " for " << x.to_string();
      const bool many_rows = is_weight && x.numel() > 1'000'000;
      EXPECT_TRUE(tiles || target.cpu_isa < CpuIsa::kAmx || !many_rows) << implementation;
    }
}

TEST(OnednnScaledLinear, SaysWhatItIsAndRejectsWithReasons) {
  const OpSpec spec = scaled_spec(Shape{8, 16}, 32);
  const Cost cost = kernel_named("onednn.scaled_linear").cost(spec);
  EXPECT_EQ(cost.flops, 8.0 * 32 * (2 * 16 + 3));
  EXPECT_EQ(cost.bytes, 8.0 * 16 + 8 * 4 + 32 * 16 + 2 * 32 * 4 + 8 * 32 * 4);
  EXPECT_EQ(cost.unit, ComputeUnit::kMatrix);
  const auto reason = [](const OpSpec& given, const Target& target) {
    const Support rejection = kernel_named("onednn.scaled_linear").supports(given, target);
    return rejection ? rejection->reason : "supported";
  };
  Target target{.cpu_isa = CpuIsa::kAvx512};
  EXPECT_EQ(reason(spec, target), "int8 products need AVX-512 VNNI or AMX; this CPU has avx512");
  target.cpu_isa = CpuIsa::kAvx512Vnni;
  EXPECT_EQ(reason(scaled_spec(Shape{2, 4}, 3, DType::kF16), target), "makes f32 or bf16, not f16");
  EXPECT_EQ(reason(scaled_spec(Shape{0, 4}, 3), target), "an operand has no elements");
  OpSpec with_residual = spec;
  with_residual.attributes = spec.attributes.with(attr::kEpilogue, Epilogue().then(Op::kAdd));
  with_residual.inputs.push_back(spec.outputs[0]);
  EXPECT_EQ(reason(with_residual, target), "takes an activation after the sum, not the epilogue add(sum, e0)");
  target.device = DeviceKind::kCuda;
  EXPECT_EQ(reason(spec, target), "runs on cpu, not on cuda");
}

class AmxScaledLinear : public testing::Test {
 protected:
  void SetUp() override {
    target_ = make_backend(DeviceKind::kCpu)->properties().target;
    if (target_.cpu_isa < CpuIsa::kAmx) GTEST_SKIP() << "this CPU has no AMX";
  }
  void expect_match(const OpSpec& spec, TestStrides strides, int threads) {
    SCOPED_TRACE(fmt::format("{} x{} n={} {} strides={} threads={}", spec.outputs[0].dtype, spec.inputs[0].shape,
                             spec.inputs[2].shape[0], spec.attributes[attr::kEpilogue].to_text(),
                             static_cast<int>(strides), threads));
    target_.threads = threads;
    const Comparison result = compare_with_oracle(kernel_named("amx.scaled_linear"), spec, target_, seed_++,
                                                  default_tolerance(spec.outputs[0].dtype), strides);
    EXPECT_TRUE(result.passed) << result.message;
  }

  DeviceTarget target_;
  std::uint64_t seed_ = 1;
};

TEST_F(AmxScaledLinear, MatchesTheOracle) {
  struct Case {
    Shape x;
    std::int64_t n;
  };
  // Rows that fill blocks of 32 and pieces of 64, or not, or lie in several parts; one step of k, and many.
  const std::vector<Case> cases = {{{32, 64}, 32},       {{64, 64}, 96},  {{33, 128}, 32},  {{65, 192}, 64},
                                   {{127, 64}, 64},      {{63, 64}, 32},  {{200, 960}, 96}, {{3, 41, 64}, 64},
                                   {{2, 40, 3, 64}, 32}, {{5, 7, 64}, 32}};
  for (const Case& c : cases)
    for (const TestStrides strides : {TestStrides::kDense, TestStrides::kPadded, TestStrides::kPermuted})
      for (const int threads : {1, 2, 16})
        for (const bool bias : {false, true}) {
          expect_match(scaled_spec(c.x, c.n, DType::kF32, bias), strides, threads);
          for (const Activation activation : kActivations)
            expect_match(scaled_spec(c.x, c.n, DType::kBF16, bias, activation), strides, threads);
        }
}

TEST_F(AmxScaledLinear, SumsDoNotOverflow) {
  constexpr std::int64_t kIn = 4096, kOut = 32, kRows = 32;
  const OpSpec spec = scaled_spec(Shape{kRows, kIn}, kOut, DType::kF32, false);
  const auto prepared = prepare_dense("amx.scaled_linear", spec, target_);
  std::vector<std::int8_t> x(kRows * kIn, 127), weight(kOut * kIn, 127);
  std::fill(weight.begin() + kIn, weight.begin() + 2 * kIn, std::int8_t{-127});
  const std::vector<float> x_scale(kRows, 1), w_scale(kOut, 1);
  std::vector<float> y(kRows * kOut);
  const auto backend = make_backend(DeviceKind::kCpu);
  const auto stream = backend->make_stream();
  const Buffer scratch = backend->allocate(prepared->scratch_bytes(), MemoryCategory::kWorkspace);
  const Buffer packed = backend->allocate(prepared->packed_weights()[0].bytes, MemoryCategory::kWorkspace);
  prepared->pack(*stream, 0, host_place(weight.data()), packed.at());
  const DevicePointer sources[] = {host_place(x.data()), host_place(x_scale.data()), packed.at(),
                                   host_place(w_scale.data())};
  const DevicePointer results[] = {host_place(y.data())};
  prepared->launch({.stream = *stream, .inputs = sources, .outputs = results, .scratch = scratch.at()});
  EXPECT_EQ(y[0], 127.0F * 127 * kIn);
  EXPECT_EQ(y[1], -127.0F * 127 * kIn);
}

TEST(AmxScaledLinearSupport, SaysWhatItIs) {
  const OpSpec spec = scaled_spec(Shape{32, 64}, 96, DType::kBF16);
  EXPECT_EQ(kernel_named("amx.scaled_linear").name(), "amx.scaled_linear");
  EXPECT_EQ(kernel_named("amx.scaled_linear").compute_type(spec), DType::kI8);
  const auto prepared = prepare_dense("amx.scaled_linear", spec, Target{.cpu_isa = CpuIsa::kAmx});
  EXPECT_EQ(prepared->implementation(), "intrinsics:amx_int8");
  ASSERT_EQ(prepared->packed_weights().size(), 1U);
  EXPECT_EQ(prepared->packed_weights()[0].input, 2);
  EXPECT_EQ(prepared->packed_weights()[0].bytes, 64U * 96);
}

TEST(AmxScaledLinearSupport, DeclinesWithReasons) {
  const auto reason = [](const OpSpec& spec, CpuIsa isa = CpuIsa::kAmx) {
    const Support rejection = kernel_named("amx.scaled_linear").supports(spec, Target{.cpu_isa = isa});
    return rejection ? rejection->reason : "supported";
  };
  EXPECT_EQ(reason(scaled_spec(Shape{2, 16, 64}, 64)), "supported");
  EXPECT_EQ(reason(scaled_spec(Shape{2, 16, 64}, 64), CpuIsa::kAvx512Bf16),
            "needs AMX tiles; this CPU has avx512_bf16");
  EXPECT_EQ(reason(scaled_spec(Shape{31, 64}, 64)), "takes 32 rows or more, not 31");
  EXPECT_EQ(reason(scaled_spec(Shape{32, 1024}, 1024)), "supported");
  EXPECT_EQ(reason(scaled_spec(Shape{32, 1024}, 1056)),
            "takes weights of up to 1024 KiB, half of a core's cache, not 1056");
  EXPECT_EQ(reason(scaled_spec(Shape{32, 96}, 64)), "takes weights of multiples of 32 by 64, not [64, 96]");
  EXPECT_EQ(reason(scaled_spec(Shape{32, 64}, 48)), "takes weights of multiples of 32 by 64, not [48, 64]");
  EXPECT_EQ(reason(scaled_spec(Shape{32, 64}, 64, DType::kF32, true, Activation::kSilu)),
            "takes activations whose results are bf16, not f32");
  EXPECT_EQ(reason(scaled_spec(Shape{32, 64}, 64, DType::kF32, true, Activation::kNone, false)),
            "packs the weight, which here changes");
}

}  // namespace
}  // namespace headroom
