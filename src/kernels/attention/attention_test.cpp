#include <cmath>
#include <limits>

#include "testing/highway_check.hpp"

namespace headroom {
namespace {

struct Sizes {
  std::int64_t batch, heads, queries, keys, key_dim, value_dim;
};

OpSpec attention_spec(DType dtype, const Sizes& n, double scale) {
  return make_spec(Op::kAttention,
                   {{dtype, {n.batch, n.heads, n.queries, n.key_dim}},
                    {dtype, {n.batch, n.heads, n.keys, n.key_dim}},
                    {dtype, {n.batch, n.heads, n.keys, n.value_dim}}},
                   {{"scale", scale}});
}
OpSpec attention_spec(DType dtype, const Sizes& n) {
  return attention_spec(dtype, n, 1 / std::sqrt(static_cast<double>(n.key_dim)));
}

const std::vector<Sizes> kOddSizes = {{1, 1, 1, 1, 1, 1},      {1, 2, 1, 7, 8, 8},        {2, 1, 7, 1, 20, 8},
                                      {1, 2, 7, 17, 8, 20},    {1, 1, 17, 33, 20, 20},    {2, 3, 33, 7, 64, 72},
                                      {1, 2, 33, 65, 72, 64},  {1, 1, 50, 129, 128, 128}, {1, 2, 272, 272, 64, 64},
                                      {1, 1, 300, 17, 256, 8}, {1, 1, 17, 300, 8, 256},   {2, 2, 100, 100, 5, 3}};

class Attention : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Stored, Attention, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& param) { return std::string(name_of(param.param)); });

TEST_P(Attention, MatchesTheOracle) {
  for (const Sizes& sizes : kOddSizes)
    expect_matches_oracle("highway.attention", attention_spec(GetParam(), sizes), default_tolerance(GetParam()));
}

/// q, k and v with `kv_heads` and, unless its rank is 0, a bias or mask of the scores.
OpSpec biased_spec(DType dtype, const Sizes& n, std::int64_t kv_heads, const TensorType& bias, bool causal = false,
                   bool logsumexp = false) {
  std::vector<TensorType> in = {{dtype, {n.batch, n.heads, n.queries, n.key_dim}},
                                {dtype, {n.batch, kv_heads, n.keys, n.key_dim}},
                                {dtype, {n.batch, kv_heads, n.keys, n.value_dim}}};
  if (bias.shape.rank() > 0) in.push_back(bias);
  return make_spec(Op::kAttention, in,
                   {{"scale", 0.3}, {"causal", std::int64_t{causal}}, {"logsumexp", std::int64_t{logsumexp}}});
}
constexpr TensorType kNoBias{};

TEST_P(Attention, TakesABiasOrAMask) {
  for (const Sizes& n : {Sizes{2, 3, 7, 19, 8, 8}, Sizes{1, 2, 65, 130, 20, 72}, Sizes{2, 2, 3, 2, 4, 4}})
    for (const DType dtype : {GetParam(), DType::kBool})
      for (const Shape& shape : {Shape{n.batch, n.heads, n.queries, n.keys}, Shape{1, 1, n.queries, n.keys},
                                 Shape{n.batch, 1, 1, n.keys}, Shape{1, n.heads, n.queries, n.keys}})
        expect_matches_oracle("highway.attention", biased_spec(GetParam(), n, n.heads, {dtype, shape}),
                              default_tolerance(GetParam()));
}

TEST_P(Attention, TakesACausalOrder) {
  for (const Sizes& n : {Sizes{1, 1, 1, 3, 4, 4}, Sizes{2, 3, 19, 19, 8, 8}, Sizes{1, 2, 300, 300, 16, 16},
                         Sizes{1, 1, 130, 70, 20, 20}, Sizes{1, 1, 70, 200, 20, 20}}) {
    expect_matches_oracle("highway.attention", biased_spec(GetParam(), n, n.heads, kNoBias, true),
                          default_tolerance(GetParam()));
    const TensorType mask{DType::kBool, {1, 1, n.queries, n.keys}};
    expect_matches_oracle("highway.attention", biased_spec(GetParam(), n, n.heads, mask, true),
                          default_tolerance(GetParam()));
  }
}

TEST_P(Attention, QueryHeadsShareHeadsOfKeys) {
  for (const std::int64_t kv_heads : {1, 2, 3})
    expect_matches_oracle("highway.attention", biased_spec(GetParam(), {2, 6, 33, 40, 8, 12}, kv_heads, kNoBias, true),
                          default_tolerance(GetParam()));
}

TEST_P(Attention, GivesTheLogarithmOfTheSum) {
  for (const TensorType& bias :
       {kNoBias, TensorType{DType::kBool, {2, 1, 33, 3}}, TensorType{GetParam(), {1, 4, 1, 3}}})
    expect_matches_oracle("highway.attention", biased_spec(GetParam(), {2, 4, 33, 3, 8, 12}, 2, bias, false, true),
                          {.relative_l2 = 4e-3, .max_ulps_of_peak = 64});
}

TEST_P(Attention, TakesTheLargeHeadOfAnAutoencoder) {
  expect_matches_oracle("highway.attention", attention_spec(GetParam(), {1, 1, 100, 130, 512, 512}),
                        default_tolerance(GetParam()));
}

TEST_P(Attention, TakesScoresThatWouldOverflowAnExponential) {
  // Scores of a few hundred, of either sign, on which exp() overflows and vanishes. The looser bound allows for their
  // own rounding in f32.
  for (const double scale : {30.0, -30.0})
    expect_matches_oracle("highway.attention", attention_spec(GetParam(), {1, 2, 33, 100, 16, 16}, scale),
                          {.relative_l2 = 5e-3, .max_ulps_of_peak = 1e6});
}

TEST_P(Attention, AScaleOfZeroIsTheMeanOfTheValues) {
  expect_matches_oracle("highway.attention", attention_spec(GetParam(), {1, 1, 5, 70, 8, 8}, 0),
                        default_tolerance(GetParam()));
}

class AmxAttention : public testing::Test {
 protected:
  void SetUp() override {
    target_ = make_backend(DeviceKind::kCpu)->properties().target;
    if (target_.cpu_isa < CpuIsa::kAmx) GTEST_SKIP() << "this CPU has no AMX";
  }

  DeviceTarget target_;
};

TEST_F(AmxAttention, MatchesTheOracle) {
  std::vector<Sizes> cases = kOddSizes;
  cases.push_back({1, 2, 70, 1700, 16, 40});  // several blocks of keys, and of queries
  cases.push_back({1, 1, 20, 3100, 64, 64});  // the last block of keys smaller than the others
  cases.push_back({1, 2, 70, 600, 16, 72});   // the same with more columns of values than have their sums in tiles
  cases.push_back({1, 1, 33, 1000, 128, 128});
  cases.push_back({2, 3, 17, 17, 20, 20});   // a head for each item, so that three are at work at once
  cases.push_back({1, 3, 200, 44, 20, 20});  // with many threads, a task for each item
  std::uint64_t seed = 1;
  for (const Sizes& sizes : cases) {
    for (const double scale : {1 / std::sqrt(static_cast<double>(sizes.key_dim)), -0.3, 0.0}) {
      for (const TestStrides strides : {TestStrides::kDense, TestStrides::kPadded, TestStrides::kPermuted}) {
        for (const int threads : {1, 2, 16}) {
          target_.threads = threads;
          const Comparison result =
              compare_with_oracle(kernel_named("amx.attention"), attention_spec(DType::kBF16, sizes, scale), target_,
                                  seed++, default_tolerance(DType::kBF16), strides);
          EXPECT_TRUE(result.passed) << sizes.queries << " queries, " << sizes.keys << " keys, dims " << sizes.key_dim
                                     << " and " << sizes.value_dim << ", scale " << scale << ": " << result.message;
        }
      }
    }
  }
}

TEST_F(AmxAttention, TakesScoresThatWouldOverflowAnExponential) {
  // Scores of up to some tens, which leave the range of the offset that most rows have, thousands, and beyond integers.
  for (const double scale : {3.0, 10.0, -10.0, 300.0, -300.0, 1e8, -1e12, 1e20})
    for (const Sizes& sizes : {Sizes{1, 2, 33, 100, 16, 16}, Sizes{1, 1, 40, 2000, 16, 16},
                               Sizes{1, 1, 40, 600, 16, 80}, Sizes{1, 1, 1, 5, 64, 8}})
      for (const int threads : {1, 2}) {
        target_.threads = threads;
        const Comparison result =
            compare_with_oracle(kernel_named("amx.attention"), attention_spec(DType::kBF16, sizes, scale), target_, 1,
                                {.relative_l2 = 6e-3, .max_ulps_of_peak = 1e6});
        EXPECT_TRUE(result.passed) << sizes.keys << " keys, scale " << scale << ": " << result.message;
      }
}

TEST(AmxAttentionSupport, DeclinesWithReasons) {
  const auto reason = [](DType dtype, CpuIsa isa) {
    const Support rejection =
        kernel_named("amx.attention").supports(attention_spec(dtype, {1, 1, 4, 4, 8, 8}), Target{.cpu_isa = isa});
    return rejection ? rejection->reason : "supported";
  };
  EXPECT_EQ(reason(DType::kBF16, CpuIsa::kAvx512Bf16), "needs AMX tiles; this CPU has avx512_bf16");
  EXPECT_EQ(reason(DType::kF32, CpuIsa::kAmx), "takes bf16, not f32");
  EXPECT_EQ(reason(DType::kF32, CpuIsa::kAvx2), "needs AMX tiles; this CPU has avx2") << "bf16 would not help";
  EXPECT_EQ(reason(DType::kBF16, CpuIsa::kAmx), "supported");
  const auto reason_of = [](const OpSpec& spec) {
    const Support rejection = kernel_named("amx.attention").supports(spec, Target{.cpu_isa = CpuIsa::kAmx});
    return rejection ? rejection->reason : "supported";
  };
  const Sizes sizes{1, 1, 4, 4, 8, 8};
  EXPECT_EQ(reason_of(biased_spec(DType::kBF16, sizes, 1, {DType::kBool, {1, 1, 4, 4}})), "takes no bias and no mask");
  EXPECT_EQ(reason_of(biased_spec(DType::kBF16, sizes, 1, kNoBias, true)), "has every query see every key");
  EXPECT_EQ(reason_of(biased_spec(DType::kBF16, sizes, 1, kNoBias, false, true)), "gives no logsumexp");
}

TEST(AttentionSupport, DeclinesWithReasons) {
  const auto reason = [](const OpSpec& spec) {
    const Support rejection = kernel_named("highway.attention").supports(spec, Target{});
    return rejection ? rejection->reason : "supported";
  };
  EXPECT_EQ(reason(attention_spec(DType::kF32, {1, 1, 4, 4, 1032, 8})), "takes a head_dim of up to 1024, not 1032");
  EXPECT_EQ(reason(attention_spec(DType::kF32, {1, 1, 4, 4, 8, 1025})), "takes a head_dim of up to 1024, not 1025");
  EXPECT_EQ(reason(attention_spec(DType::kF32, {1, 1, 4, 0, 8, 8})), "an operand has no elements");
  EXPECT_EQ(reason(attention_spec(DType::kF64, {1, 1, 4, 4, 8, 8})), "stores f32 or bf16, not f64");
}

TEST(AttentionCost, CountsBothMatmuls) {
  const Cost cost = kernel_named("highway.attention").cost(attention_spec(DType::kBF16, {2, 3, 5, 7, 11, 13}));
  EXPECT_EQ(cost.flops, 2.0 * 6 * 5 * 7 * (11 + 13));
  EXPECT_EQ(cost.bytes, 2.0 * 6 * (5 * 11 + 7 * 11 + 7 * 13 + 5 * 13));
  EXPECT_EQ(cost.unit, ComputeUnit::kMatrix);
}

/// attention of one head given as T, f32 or the bits of bf16.
template <class T>
std::vector<T> attend(const Kernel& kernel, const OpSpec& spec, const std::vector<T>& q, const std::vector<T>& k,
                      const std::vector<T>& v) {
  std::vector<Operand> inputs;
  for (const TensorType& type : spec.inputs) inputs.push_back(dense_operand(type));
  const Operand output = dense_operand(spec.outputs[0]);
  const auto prepared = kernel.prepare(spec, inputs, {&output, 1}, Target{});
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  const auto stream = backend->make_stream();
  const Buffer scratch = backend->allocate(prepared->scratch_bytes(), MemoryCategory::kWorkspace);
  std::vector<T> y(static_cast<std::size_t>(spec.outputs[0].shape.numel()));
  const DevicePointer in[] = {host_place(q.data()), host_place(k.data()), host_place(v.data())};
  const DevicePointer out = host_place(y.data());
  prepared->launch({*stream, in, {&out, 1}, scratch.at()});
  return y;
}

TEST(AttentionValues, ANanInAKeyOrQueryIsNotLost) {
  const OpSpec spec = attention_spec(DType::kF32, {1, 1, 3, 40, 4, 2}, 1);
  const std::vector<float> ones(160, 1);
  for_each_highway_target([&] {
    for (const std::size_t key : {0U, 17U, 39U}) {
      std::vector<float> keys = ones;
      keys[key * 4 + 1] = std::numeric_limits<float>::quiet_NaN();
      for (const float y :
           attend(kernel_named("highway.attention"), spec, {ones.begin(), ones.begin() + 12}, keys, ones))
        EXPECT_TRUE(std::isnan(y)) << "key " << key;
    }
    std::vector<float> queries(12, 1);
    queries[5] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> y = attend(kernel_named("highway.attention"), spec, queries, ones, ones);
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / 2 == 1) << i;
  });
}

constexpr std::uint16_t kOneBits = 0x3F80, kInfinityBits = 0x7F80, kNanBits = 0x7FC0;  // of bf16
bool is_nan_bits(std::uint16_t bits) { return (bits & 0x7FFF) > kInfinityBits; }

TEST_F(AmxAttention, QueryHeadsShareHeadsOfKeys) {
  for (const std::int64_t kv_heads : {1, 2, 3})
    for (const int threads : {1, 2, 16}) {
      target_.threads = threads;
      const Comparison result = compare_with_oracle(kernel_named("amx.attention"),
                                                    biased_spec(DType::kBF16, {2, 6, 33, 40, 8, 12}, kv_heads, kNoBias),
                                                    target_, 1, default_tolerance(DType::kBF16));
      EXPECT_TRUE(result.passed) << kv_heads << " heads of keys: " << result.message;
    }
}

TEST_F(AmxAttention, ANanInAKeyOrQueryIsNotLost) {
  constexpr std::size_t kKeys = 1700;
  const OpSpec spec = attention_spec(DType::kBF16, {1, 1, 3, kKeys, 4, 2}, 1);
  const std::vector<std::uint16_t> ones(kKeys * 4, kOneBits);
  const std::vector<std::uint16_t> query(12, kOneBits), values(kKeys * 2, kOneBits);
  for (const std::size_t key : {0UL, 17UL, 39UL, 800UL, 900UL, kKeys - 1}) {
    std::vector<std::uint16_t> keys = ones;
    keys[key * 4 + 1] = kNanBits;
    for (const std::uint16_t y : attend(kernel_named("amx.attention"), spec, query, keys, values))
      EXPECT_TRUE(is_nan_bits(y)) << "key " << key;
  }
  for (const std::uint16_t wrong : {kNanBits, kInfinityBits}) {
    std::vector<std::uint16_t> queries = query;
    queries[5] = wrong;
    const auto y = attend(kernel_named("amx.attention"), spec, queries, ones, values);
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(is_nan_bits(y[i]), i / 2 == 1) << i;
  }
}

TEST_F(AmxAttention, AKeyAtMinusInfinityHasNoWeight) {
  const OpSpec spec = attention_spec(DType::kBF16, {1, 1, 3, 40, 4, 2}, 1);
  std::vector<std::uint16_t> keys(160, kOneBits), values(80, kOneBits);
  const std::vector<std::uint16_t> queries(12, kOneBits);
  keys[17 * 4] = kInfinityBits | 0x8000;
  values[17 * 2] = 0x7000;  // 1.6e29
  for (const std::uint16_t y : attend(kernel_named("amx.attention"), spec, queries, keys, values))
    EXPECT_EQ(y, kOneBits);
}

}  // namespace
}  // namespace headroom
