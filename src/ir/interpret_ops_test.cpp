#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>

#include "base/error.hpp"
#include "ir/interpreter.hpp"
#include "ir/test_util.hpp"

// Every plain op of the oracle against values computed by hand or by its defining formula.

namespace headroom {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pointwise;
using testing_tools::evaluate;
using testing_tools::integer;
using testing_tools::integers;
using testing_tools::ints;
using testing_tools::ramp;
using testing_tools::reals;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

auto near(const std::vector<double>& expected) { return Pointwise(testing::DoubleNear(1e-13), expected); }

TEST(OracleElementwise, BroadcastsBothOperands) {
  const OracleTensor column = reals({2, 1}, {10, 20});
  const OracleTensor line = reals({3}, {1, 2, 3});
  EXPECT_THAT(evaluate(Op::kAdd, {column, line}).reals, ElementsAre(11, 12, 13, 21, 22, 23));
  EXPECT_THAT(evaluate(Op::kSub, {line, column}).reals, ElementsAre(-9, -8, -7, -19, -18, -17));
  EXPECT_THAT(evaluate(Op::kMul, {column, line}).reals, ElementsAre(10, 20, 30, 20, 40, 60));
  const OracleTensor middle = reals({2, 1, 2}, {1, 2, 3, 4});
  EXPECT_THAT(evaluate(Op::kAdd, {middle, reals({2, 1}, {0, 100})}).reals, ElementsAre(1, 2, 101, 102, 3, 4, 103, 104));
}

TEST(OracleQuantize, RoundsEachRowByItsLargestMagnitude) {
  const OracleTensor x = reals({4, 4}, {-254, 127, 3, 1,  //
                                        0.5, 0.25, -0.125, 0, 0, 0, 0, 0, 1e-35, -1e-35, 0, 0});
  const std::vector<OracleTensor> results = interpret_node(Op::kQuantize, Attributes(Op::kQuantize, {}), {x});
  EXPECT_THAT(results[0].integers, ElementsAre(-127, 64, 2, 0, 127, 64, -32, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(results[1].reals, ElementsAre(2, static_cast<double>(0.5F / 127), 1, 1));
  const std::vector<OracleTensor> f8 =
      interpret_node(Op::kQuantize, Attributes(Op::kQuantize, {{"dtype", DType::kF8E4M3}}), {reals({2}, {-896, 3})});
  EXPECT_THAT(f8[0].reals, ElementsAre(-448, 1.5));
  EXPECT_EQ(f8[1].reals[0], 2);
  for (const double odd : {kInfinity, std::nan("")}) {
    const std::vector<OracleTensor> broken =
        interpret_node(Op::kQuantize, Attributes(Op::kQuantize, {}), {reals({3}, {1, -odd, 2})});
    EXPECT_THAT(broken[0].integers, ElementsAre(0, 0, 0));
    EXPECT_FALSE(std::isfinite(broken[1].reals[0]));
  }
}

TEST(OracleElementwise, NothingButACastRounds) {
  const OracleTensor third = reals({1}, {1.0 / 3.0}, DType::kBF16);
  EXPECT_EQ(evaluate(Op::kAdd, {third, third}).reals[0], 2.0 / 3.0);
  EXPECT_EQ(evaluate(Op::kMulScalar, {third}, {{"value", 3.0}}).reals[0], 1.0);
}

TEST(OracleElementwise, IntegersKeepAll64Bits) {
  const std::int64_t big = (std::int64_t{1} << 53) + 1;
  EXPECT_THAT(evaluate(Op::kAdd, {integers({1}, {big}, DType::kI64), integers({1}, {2}, DType::kI64)}).integers,
              ElementsAre(big + 2));
  EXPECT_THAT(evaluate(Op::kMul, {integers({2}, {3, -4}), integers({}, {5})}).integers, ElementsAre(15, -20));
  EXPECT_THAT(evaluate(Op::kSub, {integers({1}, {3}), integers({1}, {5})}).integers, ElementsAre(-2));
  EXPECT_THAT(evaluate(Op::kAddScalar, {integers({1}, {big}, DType::kI64)}, {{"value", -1.0}}).integers,
              ElementsAre(big - 1));
}

TEST(OracleElementwise, FunctionsAreThoseOfC) {
  const OracleTensor x = reals({4}, {-2, 0, 0.25, 4});
  const auto of = [&](Op op) { return evaluate(op, {x}).reals; };
  EXPECT_THAT(of(Op::kNeg), ElementsAre(2, 0, -0.25, -4));
  EXPECT_THAT(of(Op::kAbs), ElementsAre(2, 0, 0.25, 4));
  EXPECT_THAT(of(Op::kExp), near({0.1353352832366127, 1, 1.2840254166877414, 54.598150033144236}));
  EXPECT_THAT(of(Op::kTanh), near({-0.9640275800758169, 0, 0.24491866240370913, 0.999329299739067}));
  EXPECT_THAT(of(Op::kSigmoid), near({0.11920292202211755, 0.5, 0.5621765008857981, 0.9820137900379085}));
  EXPECT_THAT(of(Op::kErf), near({-0.9953222650189527, 0, 0.2763263901682369, 0.9999999845827421}));
  EXPECT_THAT(of(Op::kSin), near({-0.9092974268256817, 0, 0.24740395925452294, -0.7568024953079282}));
  EXPECT_THAT(of(Op::kCos), near({-0.4161468365471424, 1, 0.9689124217106447, -0.6536436208636119}));
  EXPECT_THAT(evaluate(Op::kLog, {reals({3}, {0, 1, 4})}).reals,
              ElementsAre(-kInfinity, 0, DoubleNear(1.3862943611198906, 1e-13)));
  EXPECT_TRUE(std::isnan(evaluate(Op::kLog, {reals({}, {-1})}).reals[0]));
  EXPECT_THAT(evaluate(Op::kSqrt, {reals({2}, {0, 4})}).reals, ElementsAre(0, 2));
  EXPECT_THAT(evaluate(Op::kRsqrt, {reals({2}, {0, 4})}).reals, ElementsAre(kInfinity, 0.5));
}

TEST(OracleElementwise, QuotientsAndPowers) {
  EXPECT_THAT(evaluate(Op::kDiv, {reals({2, 1}, {1, -3}), reals({2}, {4, 0})}).reals,
              ElementsAre(0.25, kInfinity, -0.75, -kInfinity));
  EXPECT_THAT(evaluate(Op::kPow, {reals({4}, {2, 4, -2, 0}), reals({4}, {-1, 0.5, 3, 0})}).reals,
              ElementsAre(0.5, 2, -8, 1));
}

TEST(OracleElementwise, NanWinsOverNumbers) {
  const double nan = std::nan("");
  const OracleTensor a = reals({4}, {1, 5, nan, 2}), b = reals({4}, {3, 4, 1, nan});
  const auto is_nan = testing::Truly([](double v) { return std::isnan(v); });
  EXPECT_THAT(evaluate(Op::kMin, {a, b}).reals, ElementsAre(1, 4, is_nan, is_nan));
  EXPECT_THAT(evaluate(Op::kMax, {a, b}).reals, ElementsAre(3, 5, is_nan, is_nan));
  EXPECT_THAT(evaluate(Op::kClamp, {a}, {{"low", 1.5}, {"high", 4.0}}).reals, ElementsAre(1.5, 4, is_nan, 2));
  EXPECT_THAT(evaluate(Op::kClamp, {integers({3}, {-9, 1, 9})}, {{"low", -2.0}, {"high", 3.0}}).integers,
              ElementsAre(-2, 1, 3));
}

TEST(OracleElementwise, ModHasTheSignOfTheDivisor) {
  EXPECT_THAT(evaluate(Op::kMod, {reals({6}, {5, -5, 5, -5, 6, 1}), reals({6}, {3, 3, -3, -3, 3, kInfinity})}).reals,
              ElementsAre(2, 1, -1, -2, 0, 1));
  EXPECT_TRUE(std::isnan(evaluate(Op::kMod, {reals({}, {5}), reals({}, {0})}).reals[0]));
  EXPECT_THAT(evaluate(Op::kMod, {integers({6}, {5, -5, 5, -5, 6, 7}), integers({6}, {3, 3, -3, -3, 3, 0})}).integers,
              ElementsAre(2, 1, -1, -2, 0, 0));
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  EXPECT_THAT(evaluate(Op::kMod, {integers({}, {least}, DType::kI64), integers({}, {-1}, DType::kI64)}).integers,
              ElementsAre(0));
}

TEST(OracleElementwise, ComparisonsMakeBools) {
  const OracleTensor a = reals({3}, {1, 2, std::nan("")}), b = reals({}, {2});
  EXPECT_THAT(evaluate(Op::kLess, {a, b}).integers, ElementsAre(1, 0, 0));
  EXPECT_THAT(evaluate(Op::kLessEqual, {a, b}).integers, ElementsAre(1, 1, 0));
  EXPECT_THAT(evaluate(Op::kEqual, {a, b}).integers, ElementsAre(0, 1, 0));
  EXPECT_EQ(evaluate(Op::kEqual, {a, b}).type, (TensorType{DType::kBool, {3}}));
  EXPECT_THAT(evaluate(Op::kLess, {integers({2}, {-1, 1}), integers({}, {0})}).integers, ElementsAre(1, 0));
}

TEST(OracleElementwise, SelectTakesOneOfTwo) {
  const OracleTensor condition = integers({2, 1}, {1, 0}, DType::kBool);
  EXPECT_THAT(evaluate(Op::kSelect, {condition, reals({2}, {1, 2}), reals({}, {9})}).reals, ElementsAre(1, 2, 9, 9));
  EXPECT_THAT(evaluate(Op::kSelect, {condition, integers({}, {4}), integers({3}, {5, 6, 7})}).integers,
              ElementsAre(4, 4, 4, 5, 6, 7));
}

TEST(OracleElementwise, Activations) {
  const OracleTensor x = reals({3}, {-1, 0, 1});
  EXPECT_THAT(evaluate(Op::kRelu, {x}).reals, ElementsAre(0, 0, 1));
  EXPECT_THAT(evaluate(Op::kSilu, {x}).reals, near({-0.2689414213699951, 0, 0.7310585786300049}));
  EXPECT_THAT(evaluate(Op::kGeluErf, {x}).reals, near({-0.15865525393145707, 0, 0.8413447460685429}));
  EXPECT_THAT(evaluate(Op::kGeluTanh, {x}).reals, near({-0.15880800939172324, 0, 0.8411919906082768}));
  EXPECT_THAT(evaluate(Op::kQuickGelu, {x}).reals, near({-0.15420423406717876, 0, 0.8457957659328212}));
  EXPECT_TRUE(std::isnan(evaluate(Op::kRelu, {reals({1}, {std::nan("")})}).reals[0]));
}

TEST(OracleElementwise, ExactGeluKeepsItsTail) {
  // 0.5 x (1 + erf(x/sqrt 2)) would cancel to 0 here; the true value is x times the normal tail at -10.
  const double value = evaluate(Op::kGeluErf, {reals({1}, {-10})}).reals[0];
  EXPECT_NEAR(value / -7.61985302416052e-23, 1.0, 1e-9);
}

// A block of Q8_0: d = 0.5 as f16, then 32 integers.
TEST(OracleUnpackBlocks, MultipliesIntegersByScales) {
  std::vector<std::int64_t> block(34, 0);
  block[1] = 0x38;
  block[2] = 3;
  block[3] = 0xFE;  // -2
  block[33] = 127;
  const OracleTensor blocks = integers({1, 1, 34}, block, DType::kU8);
  const std::vector<double> values = evaluate(Op::kUnpackBlocks, {blocks}, {{"format", std::string("Q8_0")}}).reals;
  ASSERT_EQ(values.size(), 32U);
  EXPECT_EQ(values[0], 1.5);
  EXPECT_EQ(values[1], -1);
  EXPECT_EQ(values[2], 0);
  EXPECT_EQ(values[31], 63.5);
  EXPECT_EQ(evaluate(Op::kUnpackBlocks, {blocks}, {{"format", std::string("Q8_0")}, {"dtype", DType::kBF16}}).reals[31],
            63.5);
  const std::vector<double> rows =
      evaluate(Op::kUnpackBlocks, {blocks, reals({1}, {0.125})},
               {{"format", std::string("Q8_0")}, {"dtype", DType::kF8E4M3}, {"at_run", true}})
          .reals;
  EXPECT_EQ(rows[0], 12);
  EXPECT_EQ(rows[31], 448) << "the largest, of 508";
}

TEST(OracleCast, RoundsToTheTarget) {
  const OracleTensor x = reals({3}, {1.00390625, 1.01171875, 1e39}, DType::kF64);  // 1 + 1/256, 1 + 3/256
  EXPECT_THAT(evaluate(Op::kCast, {x}, {{"dtype", DType::kBF16}}).reals, ElementsAre(1.0, 1.015625, kInfinity));
  EXPECT_THAT(evaluate(Op::kCast, {x}, {{"dtype", DType::kF8E4M3}}).reals, ElementsAre(1.0, 1.0, 448.0));
  EXPECT_EQ(evaluate(Op::kCast, {reals({1}, {0.1}, DType::kF64)}, {{"dtype", DType::kF32}}).reals[0], double{0.1F});
}

TEST(OracleCast, ToAndBetweenIntegersSaturates) {
  EXPECT_THAT(evaluate(Op::kCast, {reals({4}, {2.5, 3.5, -200, 1e9})}, {{"dtype", DType::kI8}}).integers,
              ElementsAre(2, 4, -128, 127));
  EXPECT_THAT(evaluate(Op::kCast, {integers({3}, {-5, 77, 300})}, {{"dtype", DType::kU8}}).integers,
              ElementsAre(0, 77, 255));
  EXPECT_THAT(evaluate(Op::kCast, {integers({2}, {0, -3})}, {{"dtype", DType::kBool}}).integers, ElementsAre(0, 1));
  EXPECT_THAT(
      evaluate(Op::kCast, {integers({1}, {std::int64_t{1} << 40}, DType::kI64)}, {{"dtype", DType::kI32}}).integers,
      ElementsAre(2147483647));
  EXPECT_THAT(evaluate(Op::kCast, {reals({2}, {1e19, -1e19})}, {{"dtype", DType::kI64}}).integers,
              ElementsAre(std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()));
  EXPECT_THAT(evaluate(Op::kCast, {integers({1}, {257})}, {{"dtype", DType::kBF16}}).reals, ElementsAre(256.0));
}

TEST(OracleMatmuls, Linear) {
  const OracleTensor x = reals({1, 2, 3}, {1, 2, 3, 4, 5, 6});
  const OracleTensor weight = reals({2, 3}, {1, 0, -1, 2, 2, 2});
  EXPECT_THAT(evaluate(Op::kLinear, {x, weight}).reals, ElementsAre(-2, 12, -2, 30));
  EXPECT_THAT(evaluate(Op::kLinear, {x, weight, reals({2}, {100, 200})}).reals, ElementsAre(98, 212, 98, 230));
}

TEST(OracleMatmuls, LongSumsAgreeWithTheClosedForm) {
  std::vector<double> ones(1003, 1.0);
  std::vector<double> counting;
  for (int i = 1; i <= 1003; ++i) counting.push_back(i);
  EXPECT_THAT(evaluate(Op::kLinear, {reals({1, 1003}, ones), reals({1, 1003}, counting)}).reals,
              ElementsAre(1003.0 * 1004 / 2));
}

TEST(OracleMatmuls, MatmulWithAndWithoutTransposition) {
  const OracleTensor a = reals({2, 1, 3}, {1, 2, 3, 4, 5, 6});
  const OracleTensor b = reals({2, 3, 2}, {1, 2, 3, 4, 5, 6, -1, -2, -3, -4, -5, -6});
  const std::vector<double> expected = {22, 28, -49, -64};
  EXPECT_EQ(evaluate(Op::kMatmul, {a, b}).reals, expected);
  const OracleTensor transposed = evaluate(Op::kTranspose, {b}, {{"perm", ints({0, 2, 1})}});
  EXPECT_EQ(evaluate(Op::kMatmul, {a, transposed}, {{"transpose_b", integer(1)}}).reals, expected);
}

TEST(OracleNorms, SoftmaxIsStableAndSumsToOne) {
  const OracleTensor x = reals({2, 2}, {1000, 1000 + std::log(3.0), -kInfinity, 5});
  EXPECT_THAT(evaluate(Op::kSoftmax, {x}).reals, Pointwise(DoubleNear(1e-12), {0.25, 0.75, 0.0, 1.0}));
}

TEST(OracleNorms, LayerNormUsesThePopulationVariance) {
  const OracleTensor x = reals({2, 4}, {1, 2, 3, 4, 10, 10, 10, 10});
  const double unit = 1.0 / std::sqrt(1.25 + 0.75);
  EXPECT_THAT(evaluate(Op::kLayerNorm, {x}, {{"eps", 0.75}}).reals,
              near({-1.5 * unit, -0.5 * unit, 0.5 * unit, 1.5 * unit, 0, 0, 0, 0}));
}

TEST(OracleNorms, RmsNormScalesByWeight) {
  const OracleTensor x = reals({1, 2}, {3, 4});
  EXPECT_THAT(evaluate(Op::kRmsNorm, {x, reals({2}, {10, 100})}, {{"eps", 3.5}}).reals, near({7.5, 100}));
}

TEST(OracleNorms, LayerNormScalesAndShiftsColumns) {
  const OracleTensor x = reals({2, 2}, {3, 1, -4, 4}), weight = reals({2}, {10, 100}), bias = reals({2}, {1, 2});
  EXPECT_THAT(evaluate(Op::kLayerNorm, {x, weight}, {{"eps", 0.0}}).reals, near({10, -100, -10, 100}));
  EXPECT_THAT(evaluate(Op::kLayerNorm, {x, weight, bias}, {{"eps", 0.0}}).reals, near({11, -98, -9, 102}));
}

TEST(OracleNorms, RmsNormNeedsNoWeight) {
  EXPECT_THAT(evaluate(Op::kRmsNorm, {reals({1, 2}, {3, 4})}, {{"eps", 3.5}}).reals, near({0.75, 1}));
}

TEST(OracleNorms, GroupNormIsOverTheChannelsOfAGroup) {
  // Groups {3, 1, 3, 1}, {6, 0, 6, 0} and {-1, 1, -1, 1}, {5, 5, 5, 5} of two channels of two elements.
  const OracleTensor x = reals({2, 4, 2}, {3, 1, 3, 1, 6, 0, 6, 0, -1, 1, -1, 1, 5, 5, 5, 5});
  const NamedAttributes two = {{"groups", integer(2)}, {"eps", 0.0001}};
  const double a = 1 / std::sqrt(1.0001), b = 3 / std::sqrt(9.0001);
  EXPECT_THAT(evaluate(Op::kGroupNorm, {x}, two).reals, near({a, -a, a, -a, b, -b, b, -b, -a, a, -a, a, 0, 0, 0, 0}));
  const OracleTensor weight = reals({4}, {1, 2, 3, 4}), bias = reals({4}, {0, 0, 1, 10});
  EXPECT_THAT(evaluate(Op::kGroupNorm, {x, weight, bias}, two).reals,
              near({a, -a, 2 * a, -2 * a, 1 + 3 * b, 1 - 3 * b, 10 + 4 * b, 10 - 4 * b,  //
                    -a, a, -2 * a, 2 * a, 1, 1, 10, 10}));
}

TEST(OracleNorms, GroupNormCountsTheChannelsOfItsAttribute) {
  const OracleTensor x = reals({1, 3, 2}, {3, 1, 6, 0, 70, 90});
  const NamedAttributes attributes = {{"groups", integer(1)}, {"eps", 0.0}, {"channels", integer(2)}};
  const double s = std::sqrt(21.0 / 4);  // of {3, 1, 6, 0} about 2.5
  EXPECT_THAT(evaluate(Op::kGroupNorm, {x, reals({3}, {1, 1, 1}), reals({3}, {0, 0, 5})}, attributes).reals,
              near({0.5 / s, -1.5 / s, 3.5 / s, -2.5 / s, 0, 0}));
}

TEST(OracleNorms, CumsumBeginsAnewWithEachRow) {
  const OracleTensor x = reals({2, 3}, {1, 2, 4, 0.5, -1, 3});
  EXPECT_THAT(evaluate(Op::kCumsum, {x}).reals, ElementsAre(1, 3, 7, 0.5, -0.5, 2.5));
}

TEST(OraclePositions, RopeTableGivesEachAxisItsOwnFrequencies) {
  const OracleTensor ids = integers({2, 2}, {0, 5, 3, 2});
  const auto tables =
      interpret_node(Op::kRopeTable, Attributes(Op::kRopeTable, {{"axes", ints({2, 4})}, {"theta", 100.0}}), {ids});
  EXPECT_THAT(tables[0].reals, near({1, std::cos(5.0), std::cos(0.5), std::cos(3.0), std::cos(2.0), std::cos(0.2)}));
  EXPECT_THAT(tables[1].reals, near({0, std::sin(5.0), std::sin(0.5), std::sin(3.0), std::sin(2.0), std::sin(0.2)}));
}

TEST(OraclePositions, RopeRotatesNeighbouringPairs) {
  const OracleTensor x = reals({2, 1, 4}, {1, 2, 3, 4, 5, 6, 7, 8});  // two heads, one position
  const OracleTensor cos = reals({1, 2}, {0, 0.6});
  const OracleTensor sin = reals({1, 2}, {1, 0.8});
  EXPECT_THAT(evaluate(Op::kRope, {x, cos, sin}).reals,
              near({-2, 1, 3 * 0.6 - 4 * 0.8, 4 * 0.6 + 3 * 0.8, -6, 5, 7 * 0.6 - 8 * 0.8, 8 * 0.6 + 7 * 0.8}));
}

TEST(OraclePositions, TimestepEmbeddingIsCosinesThenSines) {
  const NamedAttributes attributes = {{"dim", integer(4)}, {"scale", 10.0}};
  EXPECT_THAT(evaluate(Op::kTimestepEmbedding, {reals({2}, {0.2, 0.5})}, attributes).reals,
              near({std::cos(2.0), std::cos(0.02), std::sin(2.0), std::sin(0.02),  //
                    std::cos(5.0), std::cos(0.05), std::sin(5.0), std::sin(0.05)}));
  EXPECT_THAT(evaluate(Op::kTimestepEmbedding, {integers({1}, {3})}, {{"dim", integer(2)}}).reals,
              near({std::cos(3.0), std::sin(3.0)}));
}

TEST(OracleMovement, ReshapeKeepsRowMajorOrder) {
  const OracleTensor out = evaluate(Op::kReshape, {integers({2, 3}, {1, 2, 3, 4, 5, 6})}, {{"shape", ints({3, 2})}});
  EXPECT_EQ(out.type.shape, (Shape{3, 2}));
  EXPECT_THAT(out.integers, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(OracleMovement, TransposePermutes) {
  const OracleTensor x = reals({2, 3, 1}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(evaluate(Op::kTranspose, {x}, {{"perm", ints({1, 2, 0})}}).reals, ElementsAre(1, 4, 2, 5, 3, 6));
  // Not its own inverse, so that a permutation applied in reverse is detected.
  const OracleTensor y = reals({2, 2, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  EXPECT_THAT(evaluate(Op::kTranspose, {y}, {{"perm", ints({2, 0, 1})}}).reals,
              ElementsAre(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11));
}

TEST(OracleMovement, ConcatAndSliceAreInverse) {
  const OracleTensor a = reals({2, 1, 2}, {1, 2, 3, 4});
  const OracleTensor b = reals({2, 2, 2}, {5, 6, 7, 8, 9, 10, 11, 12});
  const OracleTensor both = evaluate(Op::kConcat, {a, b}, {{"axis", integer(1)}});
  EXPECT_THAT(both.reals, ElementsAre(1, 2, 5, 6, 7, 8, 3, 4, 9, 10, 11, 12));
  EXPECT_EQ(evaluate(Op::kSlice, {both}, {{"axis", integer(1)}, {"start", integer(0)}, {"size", integer(1)}}).reals,
            a.reals);
  EXPECT_EQ(evaluate(Op::kSlice, {both}, {{"axis", integer(1)}, {"start", integer(1)}, {"size", integer(2)}}).reals,
            b.reals);
  const OracleTensor inner =
      evaluate(Op::kSlice, {both}, {{"axis", integer(2)}, {"start", integer(1)}, {"size", integer(1)}});
  EXPECT_THAT(inner.reals, ElementsAre(2, 6, 8, 4, 10, 12));
  EXPECT_THAT(evaluate(Op::kConcat, {integers({1}, {1}), integers({2}, {2, 3})}, {{"axis", integer(0)}}).integers,
              ElementsAre(1, 2, 3));
}

TEST(OracleMovement, RowTakesOneAndRefusesOthers) {
  const OracleTensor table = reals({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(evaluate(Op::kRow, {table, integers({}, {2})}).reals, ElementsAre(5, 6));
  EXPECT_THROW((void)evaluate(Op::kRow, {table, integers({}, {3})}), Error);
  EXPECT_THROW((void)evaluate(Op::kRow, {table, integers({}, {-1})}), Error);
}

TEST(OracleImages, Conv2dWithStrideAndPadding) {
  const OracleTensor x = reals({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  const OracleTensor weight = reals({1, 1, 2, 2}, {1, 10, 100, 1000});
  EXPECT_THAT(evaluate(Op::kConv2d, {x, weight, reals({1}, {0.5})}).reals, ElementsAre(5421.5, 6532.5, 8754.5, 9865.5));
  EXPECT_THAT(evaluate(Op::kConv2d, {x, weight}, {{"stride", ints({2, 2})}, {"padding", ints({1, 1, 1, 1})}}).reals,
              ElementsAre(1000, 3200, 7040, 9865));
  EXPECT_THAT(evaluate(Op::kConv2d, {x, weight}, {{"stride", ints({3, 2})}, {"padding", ints({0, 1, 0, 0})}}).reals,
              ElementsAre(4010, 6532));
}

TEST(OracleImages, Conv2dSumsChannelsForEachFilterAndImage) {
  const OracleTensor x = reals({2, 2, 1, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const OracleTensor weight = reals({2, 2, 1, 1}, {1, 10, 100, 1000});
  EXPECT_THAT(evaluate(Op::kConv2d, {x, weight, reals({2}, {0, 1})}).reals,
              ElementsAre(31, 42, 3101, 4201, 75, 86, 7501, 8601));
}

TEST(OracleImages, Conv2dOfAnImageAndAFilterThatAreNotSquare) {
  const OracleTensor x = reals({1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  const OracleTensor weight = reals({1, 1, 1, 3}, {1, 10, 100});
  EXPECT_THAT(evaluate(Op::kConv2d, {x, weight, reals({1}, {0})}).reals, ElementsAre(321, 432, 765, 876));
}

TEST(OracleImages, Conv2dWithDilationAndGroups) {
  const OracleTensor x = reals({1, 2, 1, 3}, {1, 2, 3, 4, 5, 6});
  const OracleTensor weight = reals({2, 1, 1, 2}, {1, 10, 100, 1000});
  EXPECT_THAT(evaluate(Op::kConv2d, {x, weight}, {{"groups", integer(2)}}).reals, ElementsAre(21, 32, 5400, 6500));
  EXPECT_THAT(
      evaluate(Op::kConv2d, {x, weight, reals({2}, {0.25, 0.5})}, {{"groups", integer(2)}, {"dilation", ints({1, 2})}})
          .reals,
      ElementsAre(31.25, 6400.5));
}

TEST(OracleImages, ConvTranspose2dSpreadsEachPixel) {
  const OracleTensor x = reals({1, 1, 2, 2}, {1, 2, 3, 4});
  const OracleTensor weight = reals({1, 1, 2, 2}, {1, 10, 100, 1000});
  EXPECT_THAT(evaluate(Op::kConvTranspose2d, {x, weight, reals({1}, {0.5})}).reals,
              ElementsAre(1.5, 12.5, 20.5, 103.5, 1234.5, 2040.5, 300.5, 3400.5, 4000.5));
  EXPECT_THAT(evaluate(Op::kConvTranspose2d, {x, weight},
                       {{"stride", ints({2, 1})}, {"padding", ints({1, 1, 2, 0})}, {"output_padding", ints({1, 0})}})
                  .reals,
              ElementsAre(1200, 2000, 34, 40));
}

TEST(OracleImages, ConvTranspose2dOfGroupsIsWhatAConvolutionHasAsTheGradientOfItsImage) {
  // <conv2d(a, w), b> = <a, conv_transpose2d(b, w)> for all a and b.
  const Attribute stride = ints({2, 1}), padding = ints({1, 0, 0, 2}), dilation = ints({1, 2});
  const NamedAttributes how = {
      {"stride", stride}, {"padding", padding}, {"dilation", dilation}, {"groups", integer(2)}};
  const OracleTensor a = reals({2, 4, 5, 4}, ramp(160)), weight = reals({6, 2, 2, 2}, ramp(48));
  const OracleTensor there = evaluate(Op::kConv2d, {a, weight}, how);
  const OracleTensor b = reals({2, 6, 3, 4}, ramp(144));
  ASSERT_EQ(there.type.shape, b.type.shape);
  const OracleTensor back = evaluate(Op::kConvTranspose2d, {b, weight}, how);
  ASSERT_EQ(back.type.shape, a.type.shape);
  const auto inner = [](const OracleTensor& p, const OracleTensor& q) {
    return std::inner_product(p.reals.begin(), p.reals.end(), q.reals.begin(), 0.0);
  };
  EXPECT_NEAR(inner(there, b), inner(a, back), 1e-9);
}

TEST(OracleImages, MaxPoolDropsTheRemainder) {
  const OracleTensor x = reals({1, 2, 2, 3}, {1, 5, 9, 4, 2, 9, -1, -5, 9, -4, -2, 9});
  EXPECT_THAT(evaluate(Op::kMaxPool2d, {x}, {{"window", integer(2)}}).reals, ElementsAre(5, -1));
  const OracleTensor tall = reals({1, 2, 4, 2}, {1, 2, 3, 4, 8, 7, 6, 5, -1, -2, -3, -4, -8, -7, -6, -5});
  EXPECT_THAT(evaluate(Op::kMaxPool2d, {tall}, {{"window", integer(2)}}).reals, ElementsAre(4, 8, -1, -5));
}

TEST(OracleReductions, GoOverAnyAxes) {
  const OracleTensor x = reals({2, 1, 3}, {1, 3, 5, 9, -7, 4});
  const auto over = [&](Op op, std::vector<std::int64_t> axes) {
    return evaluate(op, {x}, {{"axes", ints(std::move(axes))}}).reals;
  };
  EXPECT_THAT(over(Op::kSum, {2}), ElementsAre(9, 6));
  EXPECT_THAT(over(Op::kSum, {0}), ElementsAre(10, -4, 9));
  EXPECT_THAT(over(Op::kMean, {1, 2}), ElementsAre(3, 2));
  EXPECT_THAT(over(Op::kMean, {0, 1, 2}), ElementsAre(2.5));
  EXPECT_THAT(over(Op::kAmax, {0, 1}), ElementsAre(9, 3, 5));
  EXPECT_THAT(over(Op::kAmin, {0, 2}), ElementsAre(-7));
}

TEST(OracleReductions, NanIsTheLargestAndTheSmallest) {
  const double nan = std::nan("");
  const OracleTensor x = reals({2, 3}, {1, nan, 3, 4, 5, -kInfinity});
  const auto is_nan = testing::Truly([](double v) { return std::isnan(v); });
  EXPECT_THAT(evaluate(Op::kAmax, {x}, {{"axes", ints({1})}}).reals, ElementsAre(is_nan, 5));
  EXPECT_THAT(evaluate(Op::kAmin, {x}, {{"axes", ints({1})}}).reals, ElementsAre(is_nan, -kInfinity));
}

TEST(OracleReductions, ArgmaxIsTheFirstOfTheLargest) {
  const OracleTensor x = reals({2, 3}, {1, 5, 5, 4, std::nan(""), std::nan("")});
  EXPECT_THAT(evaluate(Op::kArgmax, {x}, {{"axis", integer(1)}}).integers, ElementsAre(1, 1));
  EXPECT_THAT(evaluate(Op::kArgmax, {x}, {{"axis", integer(0)}}).integers, ElementsAre(1, 1, 1));
}

TEST(OracleReductions, TopkFallsAndKeepsTheOrderOfEqualOnes) {
  const OracleTensor x = reals({2, 5}, {1, 5, 3, 5, -2, 0, 7, std::nan(""), 7, 8});
  const std::vector<OracleTensor> both = interpret_node(Op::kTopk, Attributes(Op::kTopk, {{"k", integer(3)}}), {x});
  const auto is_nan = testing::Truly([](double v) { return std::isnan(v); });
  EXPECT_THAT(both[0].reals, ElementsAre(5, 5, 3, is_nan, 8, 7));
  EXPECT_THAT(both[1].integers, ElementsAre(1, 3, 2, 2, 4, 1));
}

TEST(OracleNode, ResultsCarryTheInferredType) {
  const OracleTensor out =
      evaluate(Op::kLinear, {reals({2, 3}, ramp(6), DType::kBF16), reals({4, 3}, ramp(12), DType::kBF16)});
  EXPECT_EQ(out.type, (TensorType{DType::kBF16, Shape{2, 4}}));
  EXPECT_THROW((void)evaluate(Op::kLinear, {reals({2, 3}, ramp(6)), reals({4, 2}, ramp(8))}), Error);
}

TEST(OracleNode, RefusesOperandsOfTheWrongSize) {
  OracleTensor x = reals({2, 3}, ramp(6));
  x.reals.pop_back();
  EXPECT_THROW((void)evaluate(Op::kRelu, {x}), std::logic_error);
}

}  // namespace
}  // namespace headroom
