#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "ir/infer.hpp"
#include "ir/test_util.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing_tools::evaluate;
using testing_tools::reals;
using Given = NamedAttributes;

Attribute mode(const char* name) { return std::string(name); }

TEST(OracleResize2d, NearestRoundsDown) {
  const OracleTensor x = reals({1, 2, 1, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(evaluate(Op::kResize2d, {x}, {{"size", Ints{2, 5}}}).reals,
              ElementsAre(1, 1, 2, 2, 3, 1, 1, 2, 2, 3, 4, 4, 5, 5, 6, 4, 4, 5, 5, 6));
  EXPECT_THAT(evaluate(Op::kResize2d, {x}, {{"size", Ints{1, 2}}}).reals, ElementsAre(1, 2, 4, 5));
}

TEST(OracleResize2d, BilinearWeighsByTheDistanceOfCentres) {
  const OracleTensor x = reals({1, 1, 2, 2}, {0, 4, 8, 12});
  EXPECT_THAT(evaluate(Op::kResize2d, {x}, {{"size", Ints{2, 4}}, {"mode", mode("bilinear")}}).reals,
              ElementsAre(0, 1, 3, 4, 8, 9, 11, 12));
  EXPECT_THAT(evaluate(Op::kResize2d, {x}, {{"size", Ints{1, 1}}, {"mode", mode("bilinear")}}).reals, ElementsAre(6));
}

TEST(OraclePools, DropTheRemainder) {
  const OracleTensor x = reals({1, 2, 2, 3}, {1, 5, 9, 4, 2, 9, -1, -5, 9, -4, -2, 9});
  const Given window = {{"window", std::int64_t{2}}};
  EXPECT_THAT(evaluate(Op::kMaxPool2d, {x}, window).reals, ElementsAre(5, -1));
  EXPECT_THAT(evaluate(Op::kAvgPool2d, {x}, window).reals, ElementsAre(3, -3));
  const OracleTensor nan = reals({1, 1, 2, 2}, {1, std::numeric_limits<double>::quiet_NaN(), 3, 0});
  EXPECT_TRUE(std::isnan(evaluate(Op::kMaxPool2d, {nan}, window).reals[0]));
}

TEST(SamplingTypes, KeepTheLayout) {
  const TensorType x{DType::kBF16, {2, 3, 9, 8}, Layout::kChannelsLast};
  const auto type_of = [&](Op op, Given given) { return infer(op, Attributes(op, std::move(given)), {{x}})[0]; };
  EXPECT_EQ(type_of(Op::kResize2d, {{"size", Ints{18, 5}}}),
            (TensorType{DType::kBF16, {2, 3, 18, 5}, Layout::kChannelsLast}));
  EXPECT_EQ(type_of(Op::kAvgPool2d, {{"window", std::int64_t{2}}}),
            (TensorType{DType::kBF16, {2, 3, 4, 4}, Layout::kChannelsLast}));
  EXPECT_THROW((void)type_of(Op::kAvgPool2d, {{"window", std::int64_t{9}}}), Error);
  EXPECT_THROW((void)type_of(Op::kResize2d, {{"size", Ints{18}}}), Error);
  EXPECT_THROW((void)type_of(Op::kResize2d, {{"size", Ints{18, 0}}}), Error);
  EXPECT_THROW((void)type_of(Op::kResize2d, {{"size", Ints{18, 5}}, {"mode", mode("cubic")}}), Error);
}

}  // namespace
}  // namespace headroom
