#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <utility>
#include <vector>

#include "testing/onednn_target.hpp"

namespace headroom {
namespace {

using onednn::expect_agrees;
using onednn::prepare_dense;
using onednn::test_target;

enum class Bias { kNone, kF32, kSame };

OpSpec linear_spec(DType dtype, const Shape& x, std::int64_t n, Bias bias = Bias::kF32,
                   Activation activation = Activation::kNone, bool is_weight = true) {
  std::vector<TensorType> inputs{{dtype, x}, {dtype, Shape{n, x[-1]}}};
  if (bias != Bias::kNone) inputs.push_back({bias == Bias::kSame ? dtype : DType::kF32, Shape{n}});
  return make_spec(Op::kLinear, std::move(inputs), {{attr::kEpilogue, Epilogue(activation)}},
                   {false, is_weight, is_weight});
}

constexpr DType kDTypes[] = {DType::kF32, DType::kBF16};
constexpr TestStrides kAllStrides[] = {TestStrides::kDense, TestStrides::kPadded, TestStrides::kPermuted};

TEST(OnednnLinear, AgreesForEveryShapeAndStrides) {
  struct Case {
    Shape x;
    std::int64_t n;
  };
  const std::vector<Case> cases = {{{1, 1}, 1},       {{5}, 3},         {{1, 192}, 17},  {{7, 5}, 1},
                                   {{31, 33}, 65},    {{2, 3, 5}, 7},   {{4, 1, 8}, 16}, {{3, 2, 5, 31}, 9},
                                   {{2, 60, 64}, 48}, {{340, 192}, 768}};
  for (const Case& c : cases)
    for (const DType dtype : kDTypes)
      for (const bool is_weight : {false, true})
        for (const TestStrides strides : kAllStrides) {
          SCOPED_TRACE(
              fmt::format("{} x{} n={} weight={} strides={}", dtype, c.x, c.n, is_weight, static_cast<int>(strides)));
          expect_agrees("onednn.linear", linear_spec(dtype, c.x, c.n, Bias::kF32, Activation::kNone, is_weight),
                        strides);
        }
}

TEST(OnednnLinear, AgreesForEveryBiasAndActivation) {
  for (const DType dtype : kDTypes)
    for (const Bias bias : {Bias::kNone, Bias::kF32, Bias::kSame})
      for (const Activation activation :
           {Activation::kNone, Activation::kGeluTanh, Activation::kGeluErf, Activation::kSilu, Activation::kRelu})
        for (const TestStrides strides : kAllStrides) {
          SCOPED_TRACE(fmt::format("{} bias={} {} strides={}", dtype, static_cast<int>(bias), name_of(activation),
                                   static_cast<int>(strides)));
          expect_agrees("onednn.linear", linear_spec(dtype, Shape{2, 19, 40}, 72, bias, activation), strides);
        }
}

/// Rows that are evenly spaced in one operand and not in the other: x is dense, y a part of a concatenation along
/// the sequence.
TEST(OnednnLinear, MergesRowsOnlyWhereBothOperandsLetIt) {
  const OpSpec spec = linear_spec(DType::kF32, Shape{2, 3, 4}, 5, Bias::kNone, Activation::kNone, false);
  const Operand x = dense_operand(spec.inputs[0]), y = dense_operand(spec.outputs[0]);
  const Shape gapped_x{100, 4, 1}, gapped_y{60, 5, 1};
  for (const auto& [in, out] : {std::pair{x, Operand{y.type, gapped_y}}, std::pair{Operand{x.type, gapped_x}, y}}) {
    const std::vector<Operand> inputs{in, dense_operand(spec.inputs[1])}, outputs{out};
    const auto prepared = kernel_named("onednn.linear").prepare(spec, inputs, outputs, test_target());
    std::vector<float> from(200), weight(20), to(120);
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
    for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(i % 7) - 3;
    const auto backend = make_backend(DeviceKind::kCpu);
    const auto stream = backend->make_stream();
    const Buffer scratch = backend->allocate(prepared->scratch_bytes(), MemoryCategory::kWorkspace);
    const DevicePointer sources[] = {host_place(from.data()), host_place(weight.data())};
    const DevicePointer results[] = {host_place(to.data())};
    prepared->launch({.stream = *stream, .inputs = sources, .outputs = results, .scratch = scratch.at()});
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t s = 0; s < 3; ++s)
        for (std::int64_t j = 0; j < 5; ++j) {
          float expected = 0;
          for (std::int64_t i = 0; i < 4; ++i)
            expected += from[static_cast<std::size_t>(b * in.strides[0] + s * 4 + i)] *
                        weight[static_cast<std::size_t>(j * 4 + i)];
          ASSERT_EQ(to[static_cast<std::size_t>(b * out.strides[0] + s * 5 + j)], expected);
        }
  }
}

TEST(OnednnLinear, RunsWithAnyNumberOfThreads) {
  for (const int threads : {1, 2, 3}) {
    DeviceTarget target = test_target();
    target.threads = threads;
    const OpSpec spec = linear_spec(DType::kF32, Shape{129, 64}, 200, Bias::kF32, Activation::kGeluTanh);
    const Comparison comparison =
        compare_with_oracle(kernel_named("onednn.linear"), spec, target, 3, default_tolerance(DType::kF32));
    EXPECT_TRUE(comparison.passed) << comparison.message;
  }
}

TEST(OnednnLinear, EqualLayoutsMeanEqualBytes) {
  const DeviceTarget target = test_target();
  const auto few_rows = prepare_dense("onednn.linear", linear_spec(DType::kF32, Shape{4, 64}, 80), target);
  const auto many_rows = prepare_dense("onednn.linear", linear_spec(DType::kF32, Shape{900, 64}, 80), target);
  const auto wider = prepare_dense("onednn.linear", linear_spec(DType::kF32, Shape{4, 64}, 96), target);
  if (target.cpu_isa < CpuIsa::kAvx512) GTEST_SKIP() << "oneDNN blocks weights with AVX-512 only";
  ASSERT_EQ(few_rows->packed_weights().size(), 1U);
  ASSERT_EQ(wider->packed_weights().size(), 1U);
  EXPECT_EQ(few_rows->packed_weights()[0].input, 1);
  EXPECT_NE(few_rows->packed_weights()[0].layout, wider->packed_weights()[0].layout);
  if (many_rows->packed_weights()[0].layout != few_rows->packed_weights()[0].layout) return;

  std::vector<float> dense(80 * 64);
  for (std::size_t i = 0; i < dense.size(); ++i) dense[i] = static_cast<float>(i);
  const auto stream = make_backend(DeviceKind::kCpu, target.threads)->make_stream();
  std::vector<std::vector<std::byte>> packed;
  for (const auto* prepared : {few_rows.get(), many_rows.get()}) {
    packed.emplace_back(prepared->packed_weights()[0].bytes);
    prepared->pack(*stream, 0, host_place(dense.data()), host_place(packed.back().data()));
  }
  EXPECT_EQ(packed[0], packed[1]);
}

TEST(OnednnLinear, OnlyFoldedWeightsArePacked) {
  const auto prepared = prepare_dense(
      "onednn.linear", linear_spec(DType::kF32, Shape{4, 64}, 80, Bias::kF32, Activation::kNone, false), test_target());
  EXPECT_TRUE(prepared->packed_weights().empty());
}

TEST(OnednnLinear, MayBeLaunchedFromSeveralThreadsAtOnce) {
  DeviceTarget target = test_target();
  target.threads = 1;
  constexpr std::size_t kRows = 4, kIn = 8, kOut = 8;
  const OpSpec spec = linear_spec(DType::kF32, Shape{kRows, kIn}, kOut, Bias::kNone, Activation::kNone, false);
  const auto prepared = prepare_dense("onednn.linear", spec, target);
  const auto work = [&](float scale, int& wrong) {
    const auto backend = make_backend(DeviceKind::kCpu, target.threads);
    const auto stream = backend->make_stream();
    const Buffer scratch = backend->allocate(prepared->scratch_bytes(), MemoryCategory::kWorkspace);
    const std::vector<float> x(kRows * kIn, scale), weight(kOut * kIn, 1.0F);
    std::vector<float> y(kRows * kOut);
    const DevicePointer inputs[] = {host_place(x.data()), host_place(weight.data())};
    const DevicePointer outputs[] = {host_place(y.data())};
    for (int i = 0; i < 50000; ++i) {
      prepared->launch({.stream = *stream, .inputs = inputs, .outputs = outputs, .scratch = scratch.at()});
      if (y[kRows * kOut - 1] != kIn * scale) ++wrong;
      y[kRows * kOut - 1] = 0;
    }
  };
  int wrong = 0, wrong_other = 0;
  std::thread other(work, 1.0F, std::ref(wrong_other));
  work(2.0F, wrong);
  other.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(wrong_other, 0);
}

TEST(OnednnLinear, SaysWhatItIs) {
  const DeviceTarget target = test_target();
  const OpSpec spec = linear_spec(DType::kF32, Shape{8, 16}, 32);
  EXPECT_EQ(kernel_named("onednn.linear").name(), "onednn.linear");
  EXPECT_EQ(kernel_named("onednn.linear").compute_type(spec), DType::kF32);
  EXPECT_EQ(kernel_named("onednn.linear").compute_type(linear_spec(DType::kBF16, Shape{8, 16}, 32)), DType::kBF16);
  const Cost cost = kernel_named("onednn.linear").cost(spec);
  EXPECT_EQ(cost.flops, 2.0 * 8 * 32 * 16 + 8 * 32);
  EXPECT_EQ(cost.bytes, 4.0 * (8 * 16 + 32 * 16 + 32 + 8 * 32));
  EXPECT_EQ(cost.unit, ComputeUnit::kMatrix);
  const std::string implementation = prepare_dense("onednn.linear", spec, target)->implementation();
  if (target.cpu_isa >= CpuIsa::kAvx512) {
    EXPECT_EQ(implementation.substr(0, 15), "brg:avx512_core");
  } else {
    EXPECT_FALSE(implementation.empty());
  }
}

TEST(OnednnLinear, RejectsMoreRowsThanOnednnCounts) {
  const Kernel& kernel = kernel_named("onednn.linear");
  const Support many = kernel.supports(linear_spec(DType::kF32, {1 << 16, 1 << 15, 64}, 64), test_target());
  ASSERT_TRUE(many.has_value());
  EXPECT_NE(many->reason.find("has 2147483648"), std::string::npos) << many->reason;
}

TEST(OnednnLinear, RejectsWithReasons) {
  const auto reason = [](const OpSpec& spec, const Target& target) {
    const Support rejection = kernel_named("onednn.linear").supports(spec, target);
    return rejection ? rejection->reason : "supported";
  };
  DeviceTarget target = test_target();
  EXPECT_EQ(reason(linear_spec(DType::kF16, Shape{2, 4}, 3), target), "takes f32 or bf16, not f16");
  EXPECT_EQ(reason(linear_spec(DType::kF32, Shape{0, 4}, 3), target), "an operand has no elements");
  EXPECT_EQ(reason(make_spec(Op::kRelu, {{DType::kF32, Shape{2}}}), target), "runs linear, not relu");
  const TensorType row{DType::kF32, Shape{2, 8}};
  EXPECT_EQ(reason(make_spec(Op::kLinear, {row, {DType::kF32, Shape{8, 8}}, row},
                             {{attr::kEpilogue, Epilogue().then(Op::kAdd)}}),
                   target),
            "takes an activation after the sum, not the epilogue add(sum, e0)");
  target.cpu_isa = CpuIsa::kAvx2;
  EXPECT_EQ(reason(linear_spec(DType::kBF16, Shape{2, 4}, 3), target),
            "bf16 needs AVX-512 in oneDNN; this CPU has avx2");
  target.device = DeviceKind::kCuda;
  EXPECT_EQ(reason(linear_spec(DType::kF32, Shape{2, 4}, 3), target), "runs on cpu, not on cuda");
}

class AmxLinear : public testing::Test {
 protected:
  void SetUp() override {
    target_ = make_backend(DeviceKind::kCpu)->properties().target;
    if (target_.cpu_isa < CpuIsa::kAmx) GTEST_SKIP() << "this CPU has no AMX";
  }

  DeviceTarget target_;
};

TEST_F(AmxLinear, MatchesTheOracle) {
  struct Case {
    Shape x;
    std::int64_t n;
  };
  // Rows that fill blocks of 32 and pieces of 64, or not, or lie in several parts; one step of k, and many.
  const std::vector<Case> cases = {{{32, 32}, 32},       {{64, 64}, 96},  {{33, 96}, 32},   {{65, 192}, 64},
                                   {{127, 32}, 64},      {{63, 64}, 32},  {{200, 96}, 160}, {{3, 41, 64}, 64},
                                   {{2, 40, 3, 32}, 32}, {{5, 7, 32}, 32}};
  std::uint64_t seed = 1;
  for (const Case& c : cases)
    for (const Bias bias : {Bias::kNone, Bias::kF32, Bias::kSame})
      for (const Activation activation :
           {Activation::kGeluTanh, Activation::kGeluErf, Activation::kSilu, Activation::kRelu})
        for (const TestStrides strides : kAllStrides)
          for (const int threads : {1, 2, 16}) {
            target_.threads = threads;
            const OpSpec spec = linear_spec(DType::kBF16, c.x, c.n, bias, activation);
            const Comparison result = compare_with_oracle(kernel_named("amx.linear"), spec, target_, seed++,
                                                          default_tolerance(DType::kBF16), strides);
            EXPECT_TRUE(result.passed) << c.x.to_string() << " n=" << c.n << " bias=" << static_cast<int>(bias) << " "
                                       << name_of(activation) << " strides=" << static_cast<int>(strides)
                                       << " threads=" << threads << ": " << result.message;
          }
}

TEST_F(AmxLinear, ANanStaysInItsRow) {
  constexpr std::size_t kRows = 33, kSize = 32;
  constexpr std::uint16_t kOne = 0x3F80, kNan = 0x7FC0, kInfinity = 0x7F80;
  const OpSpec spec = linear_spec(DType::kBF16, Shape{kRows, kSize}, kSize, Bias::kNone, Activation::kGeluTanh);
  const auto prepared = prepare_dense("amx.linear", spec, target_);
  const auto backend = make_backend(DeviceKind::kCpu, target_.threads);
  const auto stream = backend->make_stream();
  const Buffer scratch = backend->allocate(prepared->scratch_bytes(), MemoryCategory::kWorkspace);
  const Buffer packed = backend->allocate(prepared->packed_weights()[0].bytes, MemoryCategory::kWorkspace);
  const std::vector<std::uint16_t> weight(kSize * kSize, kOne);
  prepared->pack(*stream, 0, host_place(weight.data()), packed.at());
  std::vector<std::uint16_t> x(kRows * kSize, kOne), y(kRows * kSize);
  x[3 * kSize + 5] = kNan;
  x[7 * kSize] = kInfinity;
  x[32 * kSize] = kInfinity | 0x8000;
  const DevicePointer inputs[] = {host_place(x.data()), packed.at()};
  const DevicePointer outputs[] = {host_place(y.data())};
  prepared->launch({.stream = *stream, .inputs = inputs, .outputs = outputs, .scratch = scratch.at()});
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double got = load_as_double(&y[i], DType::kBF16);
    const std::size_t row = i / kSize;
    if (row == 3 || row == 32) {  // gelu_tanh of -infinity is NaN, as its formula says
      EXPECT_TRUE(std::isnan(got)) << i;
    } else {
      EXPECT_EQ(got, row == 7 ? INFINITY : 32) << i;
    }
  }
}

TEST(AmxLinearSupport, SaysWhatItIs) {
  const OpSpec spec = linear_spec(DType::kBF16, Shape{32, 64}, 96, Bias::kF32, Activation::kSilu);
  EXPECT_EQ(kernel_named("amx.linear").name(), "amx.linear");
  EXPECT_EQ(kernel_named("amx.linear").compute_type(spec), DType::kBF16);
  const auto prepared = prepare_dense("amx.linear", spec, Target{.cpu_isa = CpuIsa::kAmx});
  EXPECT_EQ(prepared->implementation(), "intrinsics:amx_bf16");
  ASSERT_EQ(prepared->packed_weights().size(), 1U);
  EXPECT_EQ(prepared->packed_weights()[0].input, 1);
  EXPECT_EQ(prepared->packed_weights()[0].bytes, 2U * 64 * 96);
}

TEST(AmxLinearSupport, DeclinesWithReasons) {
  const auto reason = [](const OpSpec& spec, const Target& target = {.cpu_isa = CpuIsa::kAmx}) {
    const Support rejection = kernel_named("amx.linear").supports(spec, target);
    return rejection ? rejection->reason : "supported";
  };
  const auto spec = [](const Shape& x, std::int64_t n) {
    return linear_spec(DType::kBF16, x, n, Bias::kF32, Activation::kGeluTanh);
  };
  EXPECT_EQ(reason(spec({2, 16, 32}, 64)), "supported");
  EXPECT_EQ(reason(spec({31, 32}, 64)), "takes 32 rows or more, not 31");
  EXPECT_EQ(reason(spec({32, 512}, 1024)), "supported");
  EXPECT_EQ(reason(spec({32, 512}, 1056)), "takes weights of up to 1024 KiB, half of a core's cache, not 1056");
  EXPECT_EQ(reason(spec({32, 32}, 48)), "takes weights of multiples of 32 by 32, not [48, 32]");
  EXPECT_EQ(reason(spec({32, 40}, 64)), "takes weights of multiples of 32 by 32, not [64, 40]");
  EXPECT_EQ(reason(linear_spec(DType::kBF16, Shape{32, 32}, 32)), "is for linears with an activation");
  EXPECT_EQ(reason(linear_spec(DType::kBF16, Shape{32, 32}, 32, Bias::kF32, Activation::kSilu, false)),
            "packs the weight, which here changes");
  EXPECT_EQ(reason(linear_spec(DType::kF32, Shape{32, 32}, 32, Bias::kF32, Activation::kSilu)), "takes bf16, not f32");
  EXPECT_EQ(reason(spec({32, 32}, 64), {.cpu_isa = CpuIsa::kAvx512Bf16}), "needs AMX tiles; this CPU has avx512_bf16");
  EXPECT_EQ(reason(spec({32, 32}, 64), {.device = DeviceKind::kCuda}), "runs on cpu, not on cuda");
  EXPECT_EQ(reason(make_spec(Op::kRelu, {{DType::kBF16, Shape{32}}})), "runs linear, not relu");
}

}  // namespace
}  // namespace headroom
