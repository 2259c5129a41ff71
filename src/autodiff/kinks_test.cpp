// Slopes at kinks and ties, one by one: docs/derivatives.md has the same table. The expected numbers are those of
// PyTorch 2.15.0 on a CPU, in double precision, unless a comment says otherwise.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "autodiff/test_util.hpp"

namespace headroom {
namespace {

using namespace testing_tools;
using testing::ElementsAre;
using testing::IsNan;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

using Build = std::function<ValueId(Builder&, const std::vector<ValueId>&)>;

/// The gradients of the sum of `build`'s elements with respect to the operands, all of one shape.
std::vector<std::vector<double>> slopes(const Shape& shape, const std::vector<std::vector<double>>& operands,
                                        const Build& build) {
  LossGraph graph;
  std::vector<ValueId> inputs;
  std::vector<HostTensor> given;
  for (const std::vector<double>& operand : operands) {
    inputs.push_back(graph.input(shape));
    given.push_back(doubles(shape, operand));
  }
  graph.differentiate(graph.total(build(graph.builder(), inputs)), inputs);
  const NamedTensors made = graph.run(given);
  std::vector<std::vector<double>> gradients;
  for (std::size_t i = 0; i < inputs.size(); ++i) gradients.push_back(values_of(made.at("d" + std::to_string(i))));
  return gradients;
}

std::vector<double> slopes_of(Op op, const std::vector<double>& x, NamedAttributes attributes = {}) {
  return slopes({static_cast<std::int64_t>(x.size())}, {x},
                [&](Builder& b, const std::vector<ValueId>& in) { return b.emit(op, in, attributes)[0]; })[0];
}

std::vector<std::vector<double>> slopes_of_pair(Op op, const std::vector<double>& a, const std::vector<double>& b) {
  return slopes({static_cast<std::int64_t>(a.size())}, {a, b},
                [&](Builder& builder, const std::vector<ValueId>& in) { return builder.emit(op, in)[0]; });
}

TEST(Kinks, ReluIsFlatAt0) { EXPECT_THAT(slopes_of(Op::kRelu, {0, -1, 2, kNaN}), ElementsAre(0, 0, 1, 1)); }

TEST(Kinks, AbsIsFlatAt0) { EXPECT_THAT(slopes_of(Op::kAbs, {0, -1, 2, kNaN}), ElementsAre(0, -1, 1, 0)); }

TEST(Kinks, RootsAndLogarithmsAreSteepAt0) {
  EXPECT_THAT(slopes_of(Op::kSqrt, {0, 4}), ElementsAre(kInfinity, 0.25));
  EXPECT_THAT(slopes_of(Op::kRsqrt, {0, 4}), ElementsAre(-kInfinity, -0.0625));
  EXPECT_THAT(slopes_of(Op::kLog, {0, 4}), ElementsAre(kInfinity, 0.25));
}

TEST(Kinks, ExtremesOfEqualsShareEvenly) {
  const std::vector<double> a = {1, 1, 1, kNaN}, b = {1, 0, 2, 1};
  EXPECT_THAT(slopes_of_pair(Op::kMax, a, b), ElementsAre(ElementsAre(0.5, 1, 0, 1), ElementsAre(0.5, 0, 1, 1)));
  EXPECT_THAT(slopes_of_pair(Op::kMin, a, b), ElementsAre(ElementsAre(0.5, 0, 1, 1), ElementsAre(0.5, 1, 0, 1)));
}

// PyTorch has 0 on the bounds in 2.15 and had 1 in 2.11. A quantizer that clamps must pass its outermost levels on.
TEST(Kinks, ClampPassesOnItsBounds) {
  EXPECT_THAT(slopes_of(Op::kClamp, {-2, -1, 0, 1, 2, kNaN}, {{attr::kLow, -1.0}, {attr::kHigh, 1.0}}),
              ElementsAre(0, 1, 1, 1, 0, 0));
}

TEST(Kinks, PowersOf0AndWith0) {
  const std::vector<double> a = {1, 1, 0, -7, 0, -2, 0, 0}, b = {1, 0, 0, 3, 2, 3, 1, -1};
  const std::vector<std::vector<double>> made = slopes_of_pair(Op::kPow, a, b);
  EXPECT_THAT(made[0], ElementsAre(1, 0, 0, 147, 0, 12, 1, -kInfinity));
  EXPECT_THAT(made[1], ElementsAre(0, 0, 0, IsNan(), 0, IsNan(), 0, -kInfinity));
}

TEST(Kinks, RemaindersStepDownByTheQuotient) {
  const std::vector<std::vector<double>> made = slopes_of_pair(Op::kMod, {1, 1, -7, -2, 7}, {1, 2, 3, 3, 2});
  EXPECT_THAT(made[0], ElementsAre(1, 1, 1, 1, 1));
  EXPECT_THAT(made[1], ElementsAre(-1, 0, 3, 1, -3));
}

TEST(Kinks, ExtremesOverAxesShareEvenly) {
  const std::vector<double> x = {1, 2, 2, 3, 3, 3};
  const auto over = [&](Op op, const Ints& axes) {
    return slopes({2, 3}, {x}, [&](Builder& b, const std::vector<ValueId>& in) {
      return b.emit(op, in, {{attr::kAxes, axes}})[0];
    })[0];
  };
  EXPECT_THAT(over(Op::kAmax, {1}), ElementsAre(0, 0.5, 0.5, 1.0 / 3, 1.0 / 3, 1.0 / 3));
  EXPECT_THAT(over(Op::kAmax, {0, 1}), ElementsAre(0, 0, 0, 1.0 / 3, 1.0 / 3, 1.0 / 3));
  EXPECT_THAT(over(Op::kAmin, {1}), ElementsAre(1, 0, 0, 1.0 / 3, 1.0 / 3, 1.0 / 3));
  EXPECT_THAT(
      slopes({3}, {{1, kNaN, 2}}, [](Builder& b, const std::vector<ValueId>& in) { return b.amax(in[0], {0}); })[0],
      ElementsAre(IsNan(), IsNan(), IsNan()));
}

TEST(Kinks, TheFirstOfEqualsIsChosenByItsIndex) {
  EXPECT_THAT(slopes({2, 3}, {{1, 2, 2, 3, 3, 3}},
                     [](Builder& b, const std::vector<ValueId>& in) { return b.topk(in[0], 1).first; })[0],
              ElementsAre(0, 1, 0, 1, 0, 0));
  EXPECT_THAT(slopes({2, 3}, {{1, 2, 2, 3, 3, 3}},
                     [](Builder& b, const std::vector<ValueId>& in) { return b.topk(in[0], 2).first; })[0],
              ElementsAre(0, 1, 1, 1, 1, 0));
  EXPECT_THAT(slopes({1, 1, 2, 2}, {{1, 2, 2, 2}},
                     [](Builder& b, const std::vector<ValueId>& in) { return b.max_pool2d(in[0], 2); })[0],
              ElementsAre(0, 1, 0, 0));
}

TEST(Kinks, ADeadBranchOfASelectionMakesNaN) {
  const std::vector<double> made = slopes({3}, {{-1, 0, 4}}, [](Builder& b, const std::vector<ValueId>& in) {
    const ValueId zero = b.constant({0}, Shape{});
    return b.where(b.less(zero, in[0]), b.sqrt(in[0]), zero);
  })[0];
  EXPECT_THAT(made, ElementsAre(IsNan(), IsNan(), 0.25));
}

// PyTorch's vector_norm has 0 there. There is no op norm, and the root of a sum of squares has infinity times 0.
TEST(Kinks, TheRootOfASumOfSquaresHasNoSlopeAt0) {
  EXPECT_THAT(
      slopes({2}, {{0, 0}},
             [](Builder& b, const std::vector<ValueId>& in) { return b.sqrt(b.sum(b.mul(in[0], in[0]), {0})); })[0],
      ElementsAre(IsNan(), IsNan()));
}

TEST(Kinks, NormsOfEqualsAreAsSteepAsTheirEpsilon) {
  const std::vector<double> made = slopes({1, 3}, {{1, 1, 1}}, [](Builder& b, const std::vector<ValueId>& in) {
    return b.mul(b.layer_norm(in[0], 1e-5), b.constant({0, 1, 2}, Shape{3}));
  })[0];
  EXPECT_NEAR(made[0], -316.2277660168379, 1e-9);
  EXPECT_NEAR(made[1], 0, 1e-9);
  EXPECT_NEAR(made[2], 316.2277660168379, 1e-9);
}

}  // namespace
}  // namespace headroom
