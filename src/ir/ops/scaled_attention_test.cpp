#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/error.hpp"
#include "ir/infer.hpp"
#include "ir/interpreter.hpp"
#include "ir/op_definition.hpp"
#include "ir/test_util.hpp"

namespace headroom {
namespace {

using testing_tools::evaluate;
using testing_tools::integers;
using testing_tools::reals;

TensorType typed(DType dtype, Shape shape) { return {dtype, shape}; }

std::vector<TensorType> types_of(Op op, const std::vector<TensorType>& in, NamedAttributes given = {}) {
  return infer(op, Attributes(op, std::move(given)), in);
}

TEST(QuantizeValues, TransposesAndPadsTheKeys) {
  const auto types = types_of(Op::kQuantizeValues, {typed(DType::kBF16, {2, 3, 130, 64})});
  EXPECT_EQ(types, (std::vector{typed(DType::kF8E4M3, {2, 3, 64, 256}), typed(DType::kF32, {2, 3, 64})}));
  EXPECT_THROW((void)types_of(Op::kQuantizeValues, {typed(DType::kF8E4M3, {2, 3, 130, 64})}), Error);
  EXPECT_THROW((void)types_of(Op::kQuantizeValues, {typed(DType::kBF16, {3, 130, 64})}), Error);
}

/// Two channels of 21 keys, whose elements are exact in e4m3.
TEST(QuantizeValues, OrdersEverySixteenKeys) {
  std::vector<double> v;
  for (int key = 0; key < 21; ++key) {
    v.push_back(key == 20 ? 448 : key % 16);
    v.push_back(key == 3 ? -224 : 0.5 * (key % 16));
  }
  const Attributes attributes(Op::kQuantizeValues, {});
  const std::vector<OracleTensor> made =
      interpret_node(Op::kQuantizeValues, attributes, {reals({1, 1, 21, 2}, v, DType::kBF16)});
  EXPECT_EQ(made[1].reals, (std::vector{1.0, 0.5}));
  const std::vector<double> order = {0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15};
  for (std::size_t place = 0; place < 16; ++place) {
    EXPECT_EQ(made[0].reals[place], order[place]) << place;
    EXPECT_EQ(made[0].reals[128 + place], order[place] == 3 ? -448 : order[place]) << place;
  }
  // Keys 16 to 20 are 0, 1, 2, 3 and the largest; then nothing.
  const std::vector<double> rest = {0, 1, 0, 0, 2, 3, 0, 0, 448, 0};
  for (std::size_t place = 0; place < 112; ++place)
    EXPECT_EQ(made[0].reals[16 + place], place < rest.size() ? rest[place] : 0) << place;
}

TEST(ScaledAttention, HasTypesThatFit) {
  const TensorType q = typed(DType::kI8, {2, 4, 5, 16}), k = typed(DType::kI8, {2, 2, 130, 16});
  const TensorType v = typed(DType::kF8E4M3, {2, 2, 32, 256});
  const auto scales = [](Shape shape) { return typed(DType::kF32, shape); };
  const std::vector<TensorType> good = {q, scales({2, 4, 5}), k, scales({2, 2, 130}), v, scales({2, 2, 32})};
  EXPECT_EQ(types_of(Op::kScaledAttention, good, {{attr::kDType, DType::kBF16}}),
            (std::vector{typed(DType::kBF16, {2, 4, 5, 32})}));
  const std::vector<TensorType> bad = {typed(DType::kF8E4M3, {2, 4, 5, 16}),   scales({2, 4, 5, 1}),
                                       typed(DType::kI8, {2, 3, 130, 16}),     scales({2, 2, 5}),
                                       typed(DType::kF8E4M3, {2, 2, 32, 130}), scales({2, 2, 256})};
  for (std::size_t i = 0; i < bad.size(); ++i) {
    std::vector<TensorType> given = good;
    given[i] = bad[i];
    EXPECT_THROW((void)types_of(Op::kScaledAttention, given), Error) << i;
  }
  EXPECT_THROW((void)types_of(Op::kScaledAttention, good, {{attr::kDType, DType::kI8}}), Error);
  const Attributes attributes(Op::kScaledAttention, {});
  EXPECT_EQ(definition_of(Op::kScaledAttention).flops.count(attributes, good, {}), 2.0 * 2 * 4 * 5 * 130 * (16 + 32));
}

/// Two query heads that share a head of keys, worked out with the elements that the scales stand for.
TEST(ScaledAttention, IsTheAttentionOfWhatItsOperandsStandFor) {
  constexpr std::size_t kTokens = 19, kDim = 3, kChannels = 2, kRows = 2, kHeads = 2;
  std::vector<std::int64_t> q, k;
  std::vector<double> q_scale, k_scale, v;
  for (std::size_t i = 0; i < kHeads * kRows * kDim; ++i) q.push_back(static_cast<std::int64_t>(i * 37 % 101) - 50);
  for (std::size_t i = 0; i < kTokens * kDim; ++i) k.push_back(static_cast<std::int64_t>(i * 53 % 113) - 56);
  for (std::size_t i = 0; i < kHeads * kRows; ++i) q_scale.push_back(0.03125 * static_cast<double>(i + 1));
  for (std::size_t i = 0; i < kTokens; ++i) k_scale.push_back(0.0078125 * static_cast<double>(1 + i % 4));
  for (std::size_t i = 0; i < kTokens * kChannels; ++i) v.push_back(std::sin(static_cast<double>(i)));
  const std::vector<OracleTensor> values =
      interpret_node(Op::kQuantizeValues, Attributes(Op::kQuantizeValues, {}), {reals({1, 1, kTokens, kChannels}, v)});
  const OracleTensor made =
      evaluate(Op::kScaledAttention,
               {integers({1, kHeads, kRows, kDim}, q, DType::kI8), reals({1, kHeads, kRows}, q_scale),
                integers({1, 1, kTokens, kDim}, k, DType::kI8), reals({1, 1, kTokens}, k_scale), values[0], values[1]},
               {{attr::kScale, 0.5}});
  for (std::size_t row = 0; row < kHeads * kRows; ++row) {
    std::vector<double> weights;
    double total = 0;
    for (std::size_t key = 0; key < kTokens; ++key) {
      double score = 0;
      for (std::size_t i = 0; i < kDim; ++i) score += static_cast<double>(q[row * kDim + i] * k[key * kDim + i]);
      weights.push_back(std::exp(0.5 * score * q_scale[row] * k_scale[key]));
      total += weights.back();
    }
    for (std::size_t channel = 0; channel < kChannels; ++channel) {
      double sum = 0;
      for (std::size_t key = 0; key < kTokens; ++key) sum += weights[key] * v[key * kChannels + channel];
      EXPECT_NEAR(made.reals[row * kChannels + channel], sum / total, 0.04) << "values are rounded to e4m3";
    }
  }
}

}  // namespace
}  // namespace headroom
