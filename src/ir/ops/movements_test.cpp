#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "ir/infer.hpp"
#include "ir/test_util.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing_tools::evaluate;
using testing_tools::integers;
using testing_tools::reals;
using Given = NamedAttributes;

void expect_refused(Op op, const std::vector<TensorType>& in, Given given = {}) {
  EXPECT_THROW((void)infer(op, Attributes(op, std::move(given)), in), Error);
}

TEST(OracleGather, TakesRowsByTheirNumbers) {
  const OracleTensor table = reals({3, 2}, {1, 2, 3, 4, 5, 6});
  const OracleTensor out = evaluate(Op::kGather, {table, integers({1, 3}, {2, 0, 2}, DType::kI64)});
  EXPECT_EQ(out.type.shape, (Shape{1, 3, 2}));
  EXPECT_THAT(out.reals, ElementsAre(5, 6, 1, 2, 5, 6));
  EXPECT_THAT(evaluate(Op::kGather, {integers({3}, {7, 8, 9}), integers({}, {1})}).integers, ElementsAre(8));
  EXPECT_THROW((void)evaluate(Op::kGather, {table, integers({1}, {3})}), Error);
  EXPECT_THROW((void)evaluate(Op::kGather, {table, integers({1}, {-1})}), Error);
  expect_refused(Op::kGather, {{DType::kF32, {}}, {DType::kI32, {2}}});
  expect_refused(Op::kGather, {{DType::kF32, {3}}, {DType::kF32, {2}}});
}

TEST(OracleScatterAdd, AddsEachUpdateToItsRow) {
  const OracleTensor x = reals({3, 2}, {1, 2, 3, 4, 5, 6});
  const OracleTensor updates = reals({3, 2}, {10, 20, 30, 40, 50, 60});
  EXPECT_THAT(evaluate(Op::kScatterAdd, {x, integers({3}, {2, 0, 2}), updates}).reals,
              ElementsAre(31, 42, 3, 4, 65, 86));
  EXPECT_THROW((void)evaluate(Op::kScatterAdd, {x, integers({3}, {2, 0, 3}), updates}), Error);
  const TensorType table{DType::kF32, {3, 2}}, ids{DType::kI32, {4}};
  expect_refused(Op::kScatterAdd, {table, ids, {DType::kF32, {3, 2}}});
  expect_refused(Op::kScatterAdd, {table, ids, {DType::kBF16, {4, 2}}});
}

TEST(OraclePad, PutsAValueAround) {
  const OracleTensor x = reals({2, 1}, {1, 2});
  const OracleTensor out = evaluate(Op::kPad, {x}, {{"before", Ints{1, 0}}, {"after", Ints{0, 2}}, {"value", -0.5}});
  EXPECT_EQ(out.type.shape, (Shape{3, 3}));
  EXPECT_THAT(out.reals, ElementsAre(-0.5, -0.5, -0.5, 1, -0.5, -0.5, 2, -0.5, -0.5));
  EXPECT_THAT(
      evaluate(Op::kPad, {integers({1}, {5})}, {{"before", Ints{1}}, {"after", Ints{1}}, {"value", 3.0}}).integers,
      ElementsAre(3, 5, 3));
  expect_refused(Op::kPad, {{DType::kF32, {2, 1}}}, {{"before", Ints{1}}, {"after", Ints{0, 0}}});
  expect_refused(Op::kPad, {{DType::kF32, {2}}}, {{"before", Ints{-1}}, {"after", Ints{0}}});
  expect_refused(Op::kPad, {{DType::kI32, {2}}}, {{"before", Ints{1}}, {"after", Ints{0}}, {"value", 0.5}});
}

TEST(OracleBroadcast, RepeatsAsNumPyDoes) {
  EXPECT_THAT(evaluate(Op::kBroadcast, {reals({2, 1}, {1, 2})}, {{"shape", Ints{2, 2, 3}}}).reals,
              ElementsAre(1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2));
  EXPECT_THAT(evaluate(Op::kBroadcast, {integers({}, {4})}, {{"shape", Ints{2}}}).integers, ElementsAre(4, 4));
  expect_refused(Op::kBroadcast, {{DType::kF32, {2, 3}}}, {{"shape", Ints{3}}});
  expect_refused(Op::kBroadcast, {{DType::kF32, {2}}}, {{"shape", Ints{2, 1}}});
}

}  // namespace
}  // namespace headroom
