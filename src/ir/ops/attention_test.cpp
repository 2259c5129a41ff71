#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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
}

TEST(AttentionFlops, CountWhatIsSeen) {
  const auto flops = [](std::int64_t queries, std::int64_t keys, std::int64_t causal) {
    const std::vector<TensorType> in = {f32({2, 6, queries, 8}), f32({2, 3, keys, 8}), f32({2, 3, keys, 4})};
    const Attributes attributes(Op::kAttention, {{"causal", causal}});
    return definition_of(Op::kAttention).flops.count(attributes, in, infer(Op::kAttention, attributes, in));
  };
  EXPECT_EQ(flops(5, 7, 0), 2.0 * 12 * 35 * 12);
  EXPECT_EQ(flops(5, 7, 1), 2.0 * 12 * (1 + 2 + 3 + 4 + 5) * 12);
  EXPECT_EQ(flops(4, 2, 1), 2.0 * 12 * (1 + 2 + 2 + 2) * 12);
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

}  // namespace
}  // namespace headroom
