#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "base/error.hpp"
#include "ir/infer.hpp"
#include "ir/op_definition.hpp"
#include "ir/test_util.hpp"

namespace headroom {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pointwise;
using testing_tools::evaluate;
using testing_tools::integers;
using testing_tools::ramp;
using testing_tools::reals;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Given = NamedAttributes;

auto near(const std::vector<double>& expected) { return Pointwise(DoubleNear(1e-12), expected); }
TensorType f32(Shape shape) { return {DType::kF32, shape}; }
Attribute flag() { return std::int64_t{1}; }

std::vector<TensorType> types_of(const std::vector<TensorType>& in, Given given = {}) {
  return infer(Op::kAttention, Attributes(Op::kAttention, std::move(given)), in);
}
void expect_refused(const std::vector<TensorType>& in, Given given = {}) {
  EXPECT_THROW((void)types_of(in, std::move(given)), Error);
}

TEST(AttentionTypes, KeysMayHaveFewerHeadsAndScoresABias) {
  const TensorType q = f32({2, 6, 5, 8}), k = f32({2, 3, 7, 8}), v = f32({2, 3, 7, 4});
  EXPECT_EQ(types_of({q, k, v}), std::vector{f32({2, 6, 5, 4})});
  for (const Shape& bias : {Shape{2, 6, 5, 7}, Shape{1, 1, 5, 7}, Shape{2, 1, 1, 7}})
    for (const DType dtype : {DType::kF32, DType::kBool})
      EXPECT_EQ(types_of({q, k, v, {dtype, bias}}), std::vector{f32({2, 6, 5, 4})}) << bias.to_string();
  EXPECT_EQ(types_of({q, k, v}, {{"logsumexp", flag()}}), (std::vector{f32({2, 6, 5, 4}), f32({2, 6, 5})}));
  expect_refused({q, f32({2, 4, 7, 8}), f32({2, 4, 7, 4})});
  expect_refused({q, k, f32({2, 6, 7, 4})});
  expect_refused({q, k, v, f32({2, 6, 5, 1})});
  expect_refused({q, k, v, f32({5, 7})});
  expect_refused({q, k, v, {DType::kBF16, {1, 1, 5, 7}}});
  expect_refused({q, k, v}, {{"causal", std::int64_t{2}}});
  EXPECT_EQ(types_of({q, k, v}, {{"causal", flag()}, {"diagonal", std::int64_t{-9}}}), std::vector{f32({2, 6, 5, 4})});
  expect_refused({q, k, v}, {{"diagonal", flag()}});
}

TEST(AttentionFlops, CountWhatIsSeen) {
  const auto flops = [](std::int64_t queries, std::int64_t keys, std::int64_t causal, std::int64_t diagonal = 0) {
    const std::vector<TensorType> in = {f32({2, 6, queries, 8}), f32({2, 3, keys, 8}), f32({2, 3, keys, 4})};
    const Attributes attributes(Op::kAttention, {{"causal", causal}, {"diagonal", diagonal}});
    return definition_of(Op::kAttention).flops.count(attributes, in, infer(Op::kAttention, attributes, in));
  };
  EXPECT_EQ(flops(5, 7, 0), 2.0 * 12 * 35 * 12);
  EXPECT_EQ(flops(5, 7, 1), 2.0 * 12 * (1 + 2 + 3 + 4 + 5) * 12);
  EXPECT_EQ(flops(4, 2, 1), 2.0 * 12 * (1 + 2 + 2 + 2) * 12);
  EXPECT_EQ(flops(4, 7, 1, 2), 2.0 * 12 * (3 + 4 + 5 + 6) * 12);
  EXPECT_EQ(flops(4, 7, 1, 5), 2.0 * 12 * (6 + 7 + 7 + 7) * 12);
  EXPECT_EQ(flops(4, 7, 1, 100), 2.0 * 12 * 28 * 12);
  EXPECT_EQ(flops(5, 7, 1, -2), 2.0 * 12 * (0 + 0 + 1 + 2 + 3) * 12);
  EXPECT_EQ(flops(5, 2, 1, -1), 2.0 * 12 * (0 + 1 + 2 + 2 + 2) * 12);
  EXPECT_EQ(flops(5, 7, 1, -100), 0);
}

/// One head with two queries and three keys, whose scores are 0, 1 and 2, and twice that.
const OracleTensor kQueries = reals({1, 1, 2, 1}, {1, 2}), kKeys = reals({1, 1, 3, 1}, {0, 1, 2}),
                   kValues = reals({1, 1, 3, 1}, {1, 10, 100});
double weighted(const std::vector<double>& scores) {
  double sum = 0, total = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    sum += std::exp(scores[i]);
    total += std::exp(scores[i]) * kValues.reals[i];
  }
  return total / sum;
}

TEST(AttentionOracle, ABiasIsAddedToTheScaledScores) {
  const OracleTensor bias = reals({1, 1, 1, 3}, {0.5, 0, -1});
  EXPECT_THAT(evaluate(Op::kAttention, {kQueries, kKeys, kValues, bias}, {{"scale", 0.5}}).reals,
              near({weighted({0.5, 0.5, 0}), weighted({0.5, 1, 1})}));
}

TEST(AttentionOracle, AMaskSaysWhichKeysAQuerySees) {
  const OracleTensor mask = integers({1, 1, 2, 3}, {1, 0, 1, 0, 0, 0}, DType::kBool);
  EXPECT_THAT(evaluate(Op::kAttention, {kQueries, kKeys, kValues, mask}).reals,
              near({weighted({0, -kInfinity, 2}), 0}));
}

TEST(AttentionOracle, ACausalQuerySeesKeysUpToItsOwnPlace) {
  EXPECT_THAT(evaluate(Op::kAttention, {kQueries, kKeys, kValues}, {{"causal", flag()}}).reals,
              near({1, weighted({0, 2})}));
  const OracleTensor bias = reals({1, 1, 1, 3}, {-kInfinity, 0, 0});
  EXPECT_THAT(evaluate(Op::kAttention, {kQueries, kKeys, kValues, bias}, {{"causal", flag()}}).reals, near({0, 10}));
}

TEST(AttentionOracle, ADiagonalMovesTheCausalOrder) {
  const auto attend = [](std::int64_t diagonal) {
    return interpret_node(
        Op::kAttention, Attributes(Op::kAttention, {{"causal", flag()}, {"diagonal", diagonal}, {"logsumexp", flag()}}),
        {kQueries, kKeys, kValues});
  };
  EXPECT_THAT(attend(1)[0].reals, near({weighted({0, 1}), weighted({0, 2, 4})}));
  EXPECT_THAT(attend(7)[0].reals, near({weighted({0, 1, 2}), weighted({0, 2, 4})}));
  const std::vector<OracleTensor> behind = attend(-1);
  EXPECT_THAT(behind[0].reals, near({0, 1}));
  EXPECT_EQ(behind[1].reals[0], -kInfinity);
  EXPECT_EQ(behind[1].reals[1], 0);
  const std::vector<OracleTensor> blind = attend(-5);
  EXPECT_THAT(blind[0].reals, near({0, 0}));
  EXPECT_EQ(blind[1].reals[1], -kInfinity);
}

TEST(AttentionOracle, ANaNCountsOnlyInCausalScoresThatAreSeen) {
  const double nan = std::nan("");
  const auto attend = [](const OracleTensor& q, const OracleTensor& k, std::int64_t diagonal) {
    return interpret_node(
        Op::kAttention, Attributes(Op::kAttention, {{"causal", flag()}, {"diagonal", diagonal}, {"logsumexp", flag()}}),
        {q, k, kValues});
  };
  const std::vector<OracleTensor> blind = attend(reals({1, 1, 2, 1}, {nan, 2}), kKeys, -1);
  EXPECT_THAT(blind[0].reals, near({0, 1}));
  EXPECT_EQ(blind[1].reals[0], -kInfinity);
  EXPECT_TRUE(std::isnan(attend(reals({1, 1, 2, 1}, {nan, 2}), kKeys, 0)[0].reals[0]));
  EXPECT_THAT(attend(kQueries, reals({1, 1, 3, 1}, {0, 1, nan}), 0)[0].reals, near({1, weighted({0, 2})}));
}

TEST(AttentionOracle, AHeadOfKeysServesTheQueryHeadsThatFollowEachOther) {
  const OracleTensor q = reals({2, 4, 1, 1}, {1, 2, 3, 4, 5, 6, 7, 8});
  const OracleTensor k = reals({2, 2, 2, 1}, ramp(8, 0.1)), v = reals({2, 2, 2, 1}, ramp(8));
  std::vector<double> expected;
  for (std::size_t head = 0; head < 8; ++head) {
    const std::size_t first = head / 2 * 2;
    const double a = std::exp(q.reals[head] * k.reals[first]), b = std::exp(q.reals[head] * k.reals[first + 1]);
    expected.push_back((a * v.reals[first] + b * v.reals[first + 1]) / (a + b));
  }
  EXPECT_THAT(evaluate(Op::kAttention, {q, k, v}).reals, near(expected));
}

TEST(AttentionOracle, TheLogarithmOfTheSumComesAlong) {
  const OracleTensor mask = integers({1, 1, 2, 3}, {1, 1, 1, 0, 0, 0}, DType::kBool);
  const std::vector<OracleTensor> results = interpret_node(
      Op::kAttention, Attributes(Op::kAttention, {{"logsumexp", flag()}}), {kQueries, kKeys, kValues, mask});
  ASSERT_EQ(results.size(), 2U);
  EXPECT_NEAR(results[1].reals[0], std::log(1 + std::exp(1) + std::exp(2)), 1e-6);
  EXPECT_EQ(results[1].reals[1], -kInfinity);
  EXPECT_THAT(results[0].reals, near({weighted({0, 1, 2}), 0}));
}

TEST(MergedTypes, LoseTheAxisOfTheParts) {
  const auto types = [](const std::vector<TensorType>& in, std::int64_t axis, std::int64_t logsumexp = 0) {
    return infer(Op::kMergeAttention,
                 Attributes(Op::kMergeAttention, {{"axis", axis}, {"logsumexp", std::int64_t{logsumexp}}}), in);
  };
  const TensorType x{DType::kBF16, {3, 2, 6, 5, 8}}, logs = f32({3, 2, 6, 5});
  EXPECT_EQ(types({x, logs}, 0), (std::vector{TensorType{DType::kBF16, {2, 6, 5, 8}}}));
  EXPECT_EQ(types({x, logs}, 2, 1), (std::vector{TensorType{DType::kBF16, {3, 2, 5, 8}}, f32({3, 2, 5})}));
  EXPECT_EQ(types({f32({3, 8}), f32({3})}, 0, 1), (std::vector{f32({8}), f32({})}));
  EXPECT_THROW((void)types({x, logs}, 4), Error);
  EXPECT_THROW((void)types({x, logs}, -1), Error);
  EXPECT_THROW((void)types({x, f32({3, 2, 6, 4})}, 0), Error);
  EXPECT_THROW((void)types({x, {DType::kBF16, {3, 2, 6, 5}}}, 0), Error);
  EXPECT_THROW((void)types({f32({8}), f32({})}, 0), Error);
}

/// merge_attention with its logsumexp.
std::vector<OracleTensor> merge(const OracleTensor& x, const OracleTensor& logs, std::int64_t axis = 0) {
  return interpret_node(Op::kMergeAttention, Attributes(Op::kMergeAttention, {{"axis", axis}, {"logsumexp", flag()}}),
                        {x, logs});
}

TEST(MergedOracle, WeighsPartsByTheirSums) {
  const double a = std::exp(0.5), b = std::exp(-1);
  const std::vector<OracleTensor> merged = merge(reals({2, 1, 2}, {1, 2, 10, 20}), reals({2, 1}, {0.5, -1}));
  EXPECT_THAT(merged[0].reals, near({(a + 10 * b) / (a + b), (2 * a + 20 * b) / (a + b)}));
  EXPECT_THAT(merged[1].reals, Pointwise(DoubleNear(1e-6), {std::log(a + b)}));
}

TEST(MergedOracle, APartThatSawNothingContributesNothing) {
  const double nan = std::nan("");
  const std::vector<OracleTensor> merged = merge(reals({2, 3, 1}, {nan, 5, kInfinity, 7, nan, nan}),
                                                 reals({2, 3}, {-kInfinity, 1, -kInfinity, 2, -kInfinity, -kInfinity}));
  EXPECT_THAT(merged[0].reals, near({7, 5, 0}));
  EXPECT_THAT(merged[1].reals, ElementsAre(2, 1, -kInfinity));
  for (const double log : {nan, kInfinity}) {  // exponentials of infinity are relative to it
    const std::vector<OracleTensor> wrong = merge(reals({2, 1, 1}, {1, 2}), reals({2, 1}, {log, 0}));
    EXPECT_TRUE(std::isnan(wrong[0].reals[0])) << log;
    EXPECT_TRUE(std::isnan(wrong[1].reals[0])) << log;
  }
}

/// Elements [begin, begin + count) of axis 2 of x[1, h, t, ...].
OracleTensor keys_of(const OracleTensor& x, std::int64_t begin, std::int64_t count) {
  OracleTensor part = x;
  part.type.shape.set(2, count);
  part.reals.clear();
  const std::int64_t keys = x.type.shape[2], row = x.type.shape[3];
  for (std::int64_t head = 0; head < x.type.shape[1]; ++head) {
    const auto first = x.reals.begin() + (head * keys + begin) * row;
    part.reals.insert(part.reals.end(), first, first + count * row);
  }
  return part;
}

TEST(MergedOracle, AttentionOverPartsOfTheKeysIsAttentionOverAll) {
  std::mt19937 random(1);
  const auto below = [&](std::int64_t count) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(count));
  };
  const auto numbers = [&](const Shape& shape) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < shape.numel(); ++i) values.push_back(static_cast<double>(random()) / 0x1p31 - 1);
    return reals(shape, values);
  };
  for (int trial = 0; trial < 60; ++trial) {
    const std::int64_t queries = 1 + below(6), keys = 2 + below(9);
    const OracleTensor q = numbers({1, 4, queries, 3}), k = numbers({1, 2, keys, 3}), v = numbers({1, 2, keys, 5});
    const bool causal = trial % 3 != 0;
    const std::int64_t diagonal = causal ? below(queries + keys) - queries : 0;
    const auto attend = [&](const OracleTensor& some_k, const OracleTensor& some_v, std::int64_t of) {
      const Attributes attributes(
          Op::kAttention, {{"causal", std::int64_t{causal}}, {"diagonal", causal ? of : 0}, {"logsumexp", flag()}});
      return interpret_node(Op::kAttention, attributes, {q, some_k, some_v});
    };
    OracleTensor x = reals({0, 1, 4, queries, 5}, {}), logs = reals({0, 1, 4, queries}, {});
    for (std::int64_t begin = 0; begin < keys;) {
      const std::int64_t count = 1 + below(keys - begin);
      const std::vector<OracleTensor> part =
          attend(keys_of(k, begin, count), keys_of(v, begin, count), diagonal - begin);
      x.reals.insert(x.reals.end(), part[0].reals.begin(), part[0].reals.end());
      logs.reals.insert(logs.reals.end(), part[1].reals.begin(), part[1].reals.end());
      x.type.shape.set(0, x.type.shape[0] + 1), logs.type.shape.set(0, logs.type.shape[0] + 1);
      begin += count;
    }
    const std::vector<OracleTensor> all = attend(k, v, diagonal), merged = merge(x, logs);
    EXPECT_THAT(merged[0].reals, Pointwise(DoubleNear(1e-9), all[0].reals)) << trial;
    for (std::size_t i = 0; i < all[1].reals.size(); ++i) {
      if (std::isinf(all[1].reals[i])) {
        EXPECT_EQ(merged[1].reals[i], all[1].reals[i]) << trial;
      } else {
        EXPECT_NEAR(merged[1].reals[i], all[1].reals[i], 1e-9) << trial;
      }
    }
  }
}

}  // namespace
}  // namespace headroom
