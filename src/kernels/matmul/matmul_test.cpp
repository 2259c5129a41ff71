#include <gtest/gtest.h>

#include <vector>

#include "testing/onednn_target.hpp"

namespace headroom {
namespace {

using onednn::expect_agrees;
using onednn::test_target;

OpSpec matmul_spec(DType dtype, const std::vector<std::int64_t>& batch, std::int64_t m, std::int64_t n, std::int64_t k,
                   bool transpose_b, Activation activation = Activation::kNone) {
  Shape a{std::span(batch)}, b{std::span(batch)};
  for (const std::int64_t extent : {m, k}) a.push_back(extent);
  for (const std::int64_t extent : transpose_b ? std::vector{n, k} : std::vector{k, n}) b.push_back(extent);
  return make_spec(Op::kMatmul, {{dtype, a}, {dtype, b}},
                   {{attr::kTransposeB, transpose_b}, {attr::kEpilogue, Epilogue(activation)}});
}

TEST(OnednnMatmul, AgreesForEveryShapeAndStrides) {
  struct Case {
    std::vector<std::int64_t> batch;
    std::int64_t m, n, k;
  };
  const std::vector<Case> cases = {{{}, 1, 1, 1},        {{}, 5, 7, 3},           {{}, 1, 64, 200},
                                   {{3}, 4, 1, 9},       {{2, 3}, 17, 19, 32},    {{1, 4}, 33, 33, 16},
                                   {{2, 1, 3}, 6, 5, 4}, {{2, 2, 1, 2}, 3, 8, 5}, {{2, 6}, 85, 85, 32},
                                   {{2, 6}, 85, 32, 85}, {{2, 2}, 1, 40, 24},     {{2, 2}, 24, 40, 1}};
  for (const Case& c : cases)
    for (const DType dtype : {DType::kF32, DType::kBF16})
      for (const bool transpose_b : {false, true})
        for (const TestStrides strides : {TestStrides::kDense, TestStrides::kPadded, TestStrides::kPermuted}) {
          SCOPED_TRACE(fmt::format("{} batch rank {} m={} n={} k={} transpose_b={} strides={}", dtype, c.batch.size(),
                                   c.m, c.n, c.k, transpose_b, static_cast<int>(strides)));
          expect_agrees("onednn.matmul", matmul_spec(dtype, c.batch, c.m, c.n, c.k, transpose_b), strides);
        }
}

TEST(OnednnMatmul, AgreesForEveryActivation) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const Activation activation : {Activation::kGeluTanh, Activation::kGeluErf, Activation::kSilu})
      for (const TestStrides strides : {TestStrides::kDense, TestStrides::kPadded, TestStrides::kPermuted})
        for (const bool transpose_b : {false, true}) {
          SCOPED_TRACE(fmt::format("{} {} strides={}", dtype, name_of(activation), static_cast<int>(strides)));
          expect_agrees("onednn.matmul", matmul_spec(dtype, {2, 3}, 17, 19, 32, transpose_b, activation), strides);
        }
}

/// Heads as a merged QKV projection leaves them, [batch, seq, 3, heads, head_dim], and the result interleaved for the
/// next projection.
TEST(OnednnMatmul, ReadsHeadsWhereALinearLeftThem) {
  const DeviceTarget target = test_target();
  constexpr std::int64_t kBatch = 2, kSeq = 20, kHeads = 3, kDim = 8;
  const OpSpec spec = matmul_spec(DType::kF32, {kBatch, kHeads}, kSeq, kSeq, kDim, true);
  const Shape merged{kSeq * 3 * kHeads * kDim, kDim, 3 * kHeads * kDim, 1};
  const std::vector<Operand> inputs = {{spec.inputs[0], merged}, {spec.inputs[1], merged}};
  const std::vector<Operand> outputs = {dense_operand(spec.outputs[0])};
  const auto prepared = kernel_named("onednn.matmul").prepare(spec, inputs, outputs, target);
  EXPECT_EQ(prepared->implementation().find("ref"), std::string::npos) << prepared->implementation();

  std::vector<float> qkv(kBatch * kSeq * 3 * kHeads * kDim);
  for (std::size_t i = 0; i < qkv.size(); ++i) qkv[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
  std::vector<float> scores(kBatch * kHeads * kSeq * kSeq);
  const auto backend = make_backend(DeviceKind::kCpu, target.threads);
  const Buffer scratch = backend->allocate(prepared->scratch_bytes(), MemoryCategory::kWorkspace);
  const float* const key = qkv.data() + kHeads * kDim;
  const DevicePointer addresses[] = {host_place(qkv.data()), host_place(key)};
  const DevicePointer result[] = {host_place(scores.data())};
  const auto stream = backend->make_stream();
  prepared->launch({.stream = *stream, .inputs = addresses, .outputs = result, .scratch = scratch.at()});
  for (std::int64_t b = 0, at = 0; b < kBatch; ++b)
    for (std::int64_t h = 0; h < kHeads; ++h)
      for (std::int64_t i = 0; i < kSeq; ++i)
        for (std::int64_t j = 0; j < kSeq; ++j, ++at) {
          double sum = 0;
          for (std::int64_t d = 0; d < kDim; ++d)
            sum += static_cast<double>(qkv[static_cast<std::size_t>(b * merged[0] + h * kDim + i * merged[2] + d)]) *
                   static_cast<double>(key[b * merged[0] + h * kDim + j * merged[2] + d]);
          ASSERT_NEAR(scores[static_cast<std::size_t>(at)], sum, 1e-5);
        }
}

TEST(OnednnMatmul, RejectsWithReasons) {
  const auto reason = [](const OpSpec& spec, const Target& target) {
    const Support rejection = kernel_named("onednn.matmul").supports(spec, target);
    return rejection ? rejection->reason : "supported";
  };
  DeviceTarget target = test_target();
  EXPECT_EQ(reason(matmul_spec(DType::kF64, {}, 2, 2, 2, false), target), "takes f32 or bf16, not f64");
  EXPECT_EQ(reason(matmul_spec(DType::kF32, {}, 2, 2, 2, false, Activation::kRelu), target), "takes no relu");
  OpSpec adds = matmul_spec(DType::kF32, {}, 2, 2, 2, false);
  adds.attributes = adds.attributes.with(attr::kEpilogue, Epilogue().then(Op::kAdd));
  adds.inputs.push_back(adds.outputs[0]);
  EXPECT_EQ(reason(adds, target), "takes an activation after the sum, not the epilogue add(sum, e0)");
  EXPECT_EQ(reason(matmul_spec(DType::kF32, {}, 2, 0, 2, false), target), "an operand has no elements");
  EXPECT_EQ(reason(matmul_spec(DType::kF32, {}, 2, 2, 0, false), target), "an operand has no elements");
  target.cpu_isa = CpuIsa::kPortable;
  EXPECT_EQ(reason(matmul_spec(DType::kBF16, {}, 2, 2, 2, false), target),
            "bf16 needs AVX-512 in oneDNN; this CPU has portable");
}

TEST(OnednnMatmul, CountsItsWork) {
  const Cost cost = kernel_named("onednn.matmul").cost(matmul_spec(DType::kBF16, {2, 3}, 5, 7, 11, true));
  EXPECT_EQ(cost.flops, 2.0 * 6 * 5 * 7 * 11);
  EXPECT_EQ(cost.bytes, 2.0 * 6 * (5 * 11 + 7 * 11 + 5 * 7));
  EXPECT_EQ(cost.unit, ComputeUnit::kMatrix);
}

}  // namespace
}  // namespace headroom
