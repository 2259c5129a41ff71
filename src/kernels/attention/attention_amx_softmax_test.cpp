// The vector half of attention on AMX tiles, which other CPUs have too.

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 takes its own _mm512_undefined_ps() for a mistake
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "backends/backend.hpp"
#include "base/tensors/dtype.hpp"
#include "kernels/attention/attention_amx_softmax_inl.hpp"

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vbmi,fma")
namespace headroom::amx {
namespace {

struct Row {
  std::vector<double> exponentials;  ///< by key
  float sum = 0;
  bool in_range = false;  ///< of sums in [2^-96, 2^32]
};

/// One row of scores under `terms`, with a scale of scale / 256 in base 2.
Row exponentiate(const std::vector<float>& values, const RowTerms& terms, float scale = 256) {
  constexpr std::int64_t kMost = 96;
  alignas(64) float scores[kMost] = {};
  alignas(64) Bits to[kMost] = {};
  alignas(64) float sums[256] = {};
  alignas(64) const std::array<std::uint8_t, 64> table = exponential_table();
  std::copy(values.begin(), values.end(), scores);
  const auto keys = static_cast<std::int64_t>(values.size());
  const std::int64_t groups = (keys + 31) / 32;
  const std::int64_t last_keys = keys - (groups - 1) * 32;
  const RowOfScores row_of_scores{
      .exponential = {.scale = _mm512_set1_ps(scale), .table = _mm512_load_si512(table.data())},
      .groups = groups,
      .last_keys = last_keys,
      .last = positions_of_first(last_keys)};
  const __m512 sum = exponentiate_row(row_of_scores, scores, terms, _mm512_setzero_ps(), to);
  SumRange range;
  range.add(sum);
  _mm512_store_ps(sums, sum);
  alignas(64) float row_sums[16];
  _mm512_store_ps(row_sums, sum_each_row(sums));
  Row row{.exponentials = std::vector<double>(values.size()),
          .sum = row_sums[0],
          .in_range = range.within(0x1p-96F, 0x1p32F)};
  for (int i = 0; i < groups * 32; ++i) {
    const double value = load_as_double(to + i, DType::kBF16);
    const int key = i / 32 * 32 + key_at(i % 32);
    if (key < keys) {
      row.exponentials[static_cast<std::size_t>(key)] = value;
    } else {
      EXPECT_EQ(to[i], 0) << "behind the last key";
    }
  }
  return row;
}

float largest_of(const std::vector<float>& values) {
  alignas(64) float scores[96] = {};
  std::copy(values.begin(), values.end(), scores);
  const auto keys = static_cast<std::int64_t>(values.size());
  const std::int64_t groups = (keys + 31) / 32;
  return largest_score({.exponential = {.scale = _mm512_set1_ps(1), .table = _mm512_setzero_si512()},
                        .groups = groups,
                        .last_keys = keys - (groups - 1) * 32,
                        .last = 0},
                       scores);
}

}  // namespace
}  // namespace headroom::amx
HWY_POP_ATTRIBUTES

namespace headroom::amx {
namespace {

class AmxSoftmax : public testing::Test {
 protected:
  void SetUp() override {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx512bf16") || !__builtin_cpu_supports("avx512vbmi"))
      GTEST_SKIP() << "this CPU has no AVX-512 with BF16 and VBMI";
  }
};

TEST_F(AmxSoftmax, IsNearPowersOfTwo) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-30, 30);
  double bias = 0, squares = 0;
  int count = 0;
  for (int repeat = 0; repeat < 200; ++repeat) {
    for (const std::size_t keys : {1U, 15U, 16U, 17U, 32U, 40U, 96U}) {
      std::vector<float> values(keys);
      for (float& value : values) value = uniform(random);
      const Row row = exponentiate(values, {.offset = kOffset - 256 * 3});
      double sum = 0;
      for (std::size_t i = 0; i < keys; ++i) {
        const double error = row.exponentials[i] / std::exp2(static_cast<double>(values[i]) - 3) - 1;
        EXPECT_LT(std::fabs(error), 0.007) << values[i];
        bias += error;
        squares += error * error;
        sum += row.exponentials[i];
        ++count;
      }
      EXPECT_NEAR(row.sum, sum, 1e-5 * sum) << keys << " keys";
    }
  }
  EXPECT_LT(std::fabs(bias / count), 2e-4);
  EXPECT_LT(std::sqrt(squares / count), 0.002);
}

TEST_F(AmxSoftmax, SaysWhereASumLeavesItsRange) {
  const std::vector<float> zeros(96, 0.0F);
  EXPECT_TRUE(exponentiate(zeros, {}).in_range);
  for (const float far : {40.0F, 126.0F, 128.0F, 129.0F, 300.0F, 1e6F, 8e6F}) {
    std::vector<float> values = zeros;
    values[50] = far;
    EXPECT_FALSE(exponentiate(values, {}).in_range) << far;
    EXPECT_FALSE(exponentiate(std::vector<float>(96, -100 - far), {}).in_range) << far;
    values[50] = -far;
    const Row row = exponentiate(values, {});
    EXPECT_TRUE(row.in_range) << far;
    EXPECT_NEAR(row.sum, 95, 1);
  }
}

TEST_F(AmxSoftmax, TakesTheLargestScoreToOneUnderAnyScale) {
  for (const float scale : {256.0F, 3e3F, 3e6F, 3e10F, 3e12F, 3e20F, 3e30F})
    for (const float largest : {-9.7F, -1e-3F, 0.0F, 1e-3F, 3.3F, 17.9F, 1e4F}) {
      const float second = largest - std::max(256 / scale, std::nextafter(largest, 1e9F) - largest);
      const Row row = exponentiate({second, largest, -1e5F}, terms_for(scale, largest), scale);
      EXPECT_NEAR(row.exponentials[1], 1, 0.3) << scale << " " << largest;  // an offset has steps of up to 64 / 256
      const double factor = std::exp2(static_cast<double>(second - largest) * scale / 256);
      EXPECT_NEAR(row.exponentials[0], factor * row.exponentials[1], 0.014) << scale << " " << largest;
      EXPECT_LT(row.exponentials[2], 1e-38) << scale << " " << largest;
    }
}

TEST_F(AmxSoftmax, KnowsHowFarTermsLieApart) {
  constexpr float kScale = 3e9F;
  for (const float first : {-1e-2F, 2e-2F, 5.0F})
    for (const float second : {-3e-2F, 1e-2F, 5.5F}) {
      const double exact = static_cast<double>(kScale) * (static_cast<double>(first) - second);
      EXPECT_NEAR(rise(kScale, terms_for(kScale, first), terms_for(kScale, second)), exact,
                  std::max(64.0, 1e-6 * std::fabs(exact)))
          << first << " to " << second;
    }
}

TEST_F(AmxSoftmax, FindsTheLargestScoreOrANan) {
  std::vector<float> values(40, -3.0F);
  EXPECT_EQ(largest_of(values), -3) << "zeros lie behind the last key";
  for (const std::size_t at : {0U, 20U, 39U}) {
    values[at] = 5;
    EXPECT_EQ(largest_of(values), 5);
    values[at] = NAN;
    EXPECT_TRUE(std::isnan(largest_of(values)));
    values[at] = -INFINITY;
    EXPECT_EQ(largest_of(values), -3);
    values[at] = -3;
  }
}

}  // namespace
}  // namespace headroom::amx
#endif
