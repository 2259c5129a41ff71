#include "kernels/linear.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

#include "kernels/onednn/test_target.hpp"

namespace headroom {
namespace {

using onednn::expect_agrees;
using onednn::prepare_dense;
using onednn::test_target;

enum class Bias { kNone, kF32, kSame };

OpSpec linear_spec(DType dtype, const Shape& x, std::int64_t n, Bias bias = Bias::kF32,
                   const std::string& activation = "none", bool is_weight = true) {
  std::vector<TensorType> inputs{{dtype, x}, {dtype, Shape{n, x[-1]}}};
  if (bias != Bias::kNone) inputs.push_back({bias == Bias::kSame ? dtype : DType::kF32, Shape{n}});
  return make_spec(Op::kLinear, std::move(inputs), {{"activation", activation}}, {false, is_weight, is_weight});
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
          expect_agrees(onednn_linear(), linear_spec(dtype, c.x, c.n, Bias::kF32, "none", is_weight), strides);
        }
}

TEST(OnednnLinear, AgreesForEveryBiasAndActivation) {
  for (const DType dtype : kDTypes)
    for (const Bias bias : {Bias::kNone, Bias::kF32, Bias::kSame})
      for (const char* activation : {"none", "gelu_tanh", "gelu", "silu"})
        for (const TestStrides strides : kAllStrides) {
          SCOPED_TRACE(fmt::format("{} bias={} {} strides={}", dtype, static_cast<int>(bias), activation,
                                   static_cast<int>(strides)));
          expect_agrees(onednn_linear(), linear_spec(dtype, Shape{2, 19, 40}, 72, bias, activation), strides);
        }
}

/// Rows that lie evenly in one operand and not in the other: x is dense, y a part of a concatenation along the
/// sequence.
TEST(OnednnLinear, MergesRowsOnlyWhereBothOperandsLetIt) {
  const OpSpec spec = linear_spec(DType::kF32, Shape{2, 3, 4}, 5, Bias::kNone, "none", false);
  const Operand x = dense_operand(spec.inputs[0]), y = dense_operand(spec.outputs[0]);
  const Shape gapped_x{100, 4, 1}, gapped_y{60, 5, 1};
  for (const auto& [in, out] : {std::pair{x, Operand{y.type, gapped_y}}, std::pair{Operand{x.type, gapped_x}, y}}) {
    const std::vector<Operand> inputs{in, dense_operand(spec.inputs[1])}, outputs{out};
    const auto prepared = onednn_linear().prepare(spec, inputs, outputs, test_target());
    std::vector<float> from(200), weight(20), to(120);
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
    for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(i % 7) - 3;
    const auto backend = make_backend(DeviceKind::kCpu);
    const auto stream = backend->make_stream();
    const Buffer scratch = backend->allocate(prepared->scratch_bytes(), MemoryCategory::kWorkspace);
    const void* const sources[] = {from.data(), weight.data()};
    void* const results[] = {to.data()};
    prepared->launch({.stream = *stream, .inputs = sources, .outputs = results, .scratch = scratch.data()});
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
    Target target = test_target();
    target.threads = threads;
    const OpSpec spec = linear_spec(DType::kF32, Shape{129, 64}, 200, Bias::kF32, "gelu_tanh");
    const Comparison comparison = compare_with_oracle(onednn_linear(), spec, target, 3, default_tolerance(DType::kF32));
    EXPECT_TRUE(comparison.passed) << comparison.message;
  }
}

TEST(OnednnLinear, EqualLayoutsMeanEqualBytes) {
  const Target target = test_target();
  const auto few_rows = prepare_dense(onednn_linear(), linear_spec(DType::kF32, Shape{4, 64}, 80), target);
  const auto many_rows = prepare_dense(onednn_linear(), linear_spec(DType::kF32, Shape{900, 64}, 80), target);
  const auto wider = prepare_dense(onednn_linear(), linear_spec(DType::kF32, Shape{4, 64}, 96), target);
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
    prepared->pack(*stream, 0, dense.data(), packed.back().data());
  }
  EXPECT_EQ(packed[0], packed[1]);
}

TEST(OnednnLinear, OnlyFoldedWeightsArePacked) {
  const auto prepared = prepare_dense(
      onednn_linear(), linear_spec(DType::kF32, Shape{4, 64}, 80, Bias::kF32, "none", false), test_target());
  EXPECT_TRUE(prepared->packed_weights().empty());
}

TEST(OnednnLinear, MayBeLaunchedFromSeveralThreadsAtOnce) {
  Target target = test_target();
  target.threads = 1;
  constexpr std::size_t kRows = 4, kIn = 8, kOut = 8;
  const OpSpec spec = linear_spec(DType::kF32, Shape{kRows, kIn}, kOut, Bias::kNone, "none", false);
  const auto prepared = prepare_dense(onednn_linear(), spec, target);
  const auto work = [&](float scale, int& wrong) {
    const auto backend = make_backend(DeviceKind::kCpu, target.threads);
    const auto stream = backend->make_stream();
    const Buffer scratch = backend->allocate(prepared->scratch_bytes(), MemoryCategory::kWorkspace);
    const std::vector<float> x(kRows * kIn, scale), weight(kOut * kIn, 1.0F);
    std::vector<float> y(kRows * kOut);
    const void* const inputs[] = {x.data(), weight.data()};
    void* const outputs[] = {y.data()};
    for (int i = 0; i < 50000; ++i) {
      prepared->launch({.stream = *stream, .inputs = inputs, .outputs = outputs, .scratch = scratch.data()});
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
  const Target target = test_target();
  const OpSpec spec = linear_spec(DType::kF32, Shape{8, 16}, 32);
  EXPECT_EQ(onednn_linear().name(), "onednn.linear");
  EXPECT_EQ(onednn_linear().compute_type(spec), DType::kF32);
  EXPECT_EQ(onednn_linear().compute_type(linear_spec(DType::kBF16, Shape{8, 16}, 32)), DType::kBF16);
  const Cost cost = onednn_linear().cost(spec);
  EXPECT_EQ(cost.flops, 2.0 * 8 * 32 * 16 + 8 * 32);
  EXPECT_EQ(cost.bytes, 4.0 * (8 * 16 + 32 * 16 + 32 + 8 * 32));
  EXPECT_EQ(cost.unit, ComputeUnit::kMatrix);
  const std::string implementation = prepare_dense(onednn_linear(), spec, target)->implementation();
  if (target.cpu_isa >= CpuIsa::kAvx512) {
    EXPECT_EQ(implementation.substr(0, 15), "brg:avx512_core");
  } else {
    EXPECT_FALSE(implementation.empty());
  }
}

TEST(OnednnLinear, RejectsWithReasons) {
  const auto reason = [](const OpSpec& spec, const Target& target) {
    const Support rejection = onednn_linear().supports(spec, target);
    return rejection ? rejection->reason : "supported";
  };
  Target target = test_target();
  EXPECT_EQ(reason(linear_spec(DType::kF16, Shape{2, 4}, 3), target), "takes f32 or bf16, not f16");
  EXPECT_EQ(reason(linear_spec(DType::kF32, Shape{0, 4}, 3), target), "an operand has no elements");
  EXPECT_EQ(reason(make_spec(Op::kRelu, {{DType::kF32, Shape{2}}}), target), "runs linear, not relu");
  target.cpu_isa = CpuIsa::kAvx2;
  EXPECT_EQ(reason(linear_spec(DType::kBF16, Shape{2, 4}, 3), target),
            "bf16 needs AVX-512 in oneDNN; this CPU has avx2");
  target.device = DeviceKind::kCuda;
  EXPECT_EQ(reason(linear_spec(DType::kF32, Shape{2, 4}, 3), target), "runs on a cpu, not on cuda");
}

}  // namespace
}  // namespace headroom
