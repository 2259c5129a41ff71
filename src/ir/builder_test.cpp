#include "ir/builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "base/error.hpp"
#include "ir/test_util.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing_tools::kF32;

class BuilderTest : public testing::Test {
 protected:
  ValueId input(Shape shape, DType dtype = kF32) {
    return graph_.add_input(fmt::format("x{}", graph_.value_count()), {dtype, shape});
  }
  [[nodiscard]] const Node& last() const { return graph_.nodes().back(); }

  Graph graph_;
  Builder b_{graph_};
};

TEST_F(BuilderTest, ScopesNestAndName) {
  const ValueId x = input({2});
  {
    const auto blocks = b_.scope("blocks.3");
    {
      const auto attn = b_.scope("attn");
      b_.relu(x);
      EXPECT_EQ(last().path, "blocks.3.attn");
      const ValueId weight = b_.param("weight", {kF32, Shape{4}});
      EXPECT_EQ(graph_.value(weight).name, "blocks.3.attn.weight");
    }
    b_.relu(x);
    EXPECT_EQ(last().path, "blocks.3");
  }
  b_.relu(x);
  EXPECT_EQ(last().path, "");
  EXPECT_EQ(graph_.value(b_.param("scale", {kF32, Shape{}})).name, "scale");
}

TEST_F(BuilderTest, AParamUsedTwiceIsOneValueOfOneType) {
  const ValueId first = b_.param("w", {kF32, Shape{4}});
  EXPECT_EQ(b_.param("w", {kF32, Shape{4}}), first);
  EXPECT_THROW(b_.param("w", {kF32, Shape{5}}), std::logic_error);
  EXPECT_THROW(b_.param("w", {DType::kBF16, Shape{4}}), std::logic_error);
}

TEST_F(BuilderTest, LoopsSetTheRegionWhileTheyLive) {
  const ValueId x = input({2});
  {
    const auto outer = b_.loop(3, "i");
    EXPECT_EQ(b_.region(), 1);
    {
      const auto inner = b_.loop(2, "j");
      EXPECT_EQ(b_.region(), 2);
      EXPECT_EQ(graph_.value(inner.counter()).name, "j");
    }
    b_.relu(x);
    EXPECT_EQ(last().region, 1);
    EXPECT_NE(outer.counter(), kNoValue);
  }
  EXPECT_EQ(b_.region(), kTopRegion);
  EXPECT_EQ(graph_.regions()[2].parent, 1);
  EXPECT_EQ(graph_.regions()[1].trip_count, 3);
}

TEST_F(BuilderTest, ReshapeResolvesOneUnknownExtent) {
  const ValueId x = input({4, 6});
  EXPECT_EQ(b_.shape(b_.reshape(x, {2, -1, 3})), (Shape{2, 4, 3}));
  EXPECT_THAT(last().attributes[attr::kShape], ElementsAre(2, 4, 3));
  EXPECT_THROW(b_.reshape(x, {-1, -1}), Error);
  EXPECT_THROW(b_.reshape(x, {5, -1}), Error);
  EXPECT_THROW(b_.reshape(x, {0, -1}), Error);
  EXPECT_THROW(b_.reshape(x, {4, 5}), Error);
}

TEST_F(BuilderTest, CastToTheSameDTypeIsNoNode) {
  const ValueId x = input({2});
  EXPECT_EQ(b_.cast(x, kF32), x);
  EXPECT_TRUE(graph_.nodes().empty());
  EXPECT_EQ(b_.dtype(b_.cast(x, DType::kBF16)), DType::kBF16);
}

TEST_F(BuilderTest, ConcatTakesAnyNumberOfParts) {
  const ValueId x = input({2, 3});
  for (const std::size_t parts : {1U, 64U, 65U, 200U, 5000U})
    EXPECT_EQ(b_.shape(b_.concat(std::vector<ValueId>(parts, x), 0)), (Shape{2 * static_cast<std::int64_t>(parts), 3}));
}

TEST_F(BuilderTest, AxesAreStoredFromTheFront) {
  const ValueId x = input({2, 3, 4});
  EXPECT_EQ(b_.shape(b_.slice(x, -1, 1, 2)), (Shape{2, 3, 2}));
  EXPECT_EQ(last().attributes[attr::kAxis], 2);
  EXPECT_EQ(b_.shape(b_.concat({x, x}, -2)), (Shape{2, 6, 4}));
  EXPECT_EQ(last().attributes[attr::kAxis], 1);
  EXPECT_EQ(b_.shape(b_.mean(x, {-2, -1})), (Shape{2}));
  EXPECT_THROW(b_.slice(x, -4, 0, 1), Error);
  EXPECT_THROW(b_.mean(x, {3}), Error);
}

TEST_F(BuilderTest, ChunksAreEqualSlices) {
  const ValueId x = input({2, 6});
  const std::vector<ValueId> parts = b_.chunk(x, 3, -1);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(b_.shape(parts[2]), (Shape{2, 2}));
  EXPECT_EQ(last().attributes[attr::kStart], 4);
  EXPECT_THROW(b_.chunk(x, 4, -1), Error);
}

TEST_F(BuilderTest, LinearWithoutBiasHasTwoOperands) {
  const ValueId x = input({5, 3});
  const ValueId w = b_.param("w", {kF32, Shape{7, 3}});
  EXPECT_EQ(b_.shape(b_.linear(x, w)), (Shape{5, 7}));
  EXPECT_EQ(last().inputs.size(), 2U);
  b_.linear(x, w, {.bias = b_.param("b", {kF32, Shape{7}}), .activation = Activation::kSilu});
  EXPECT_EQ(last().inputs.size(), 3U);
  EXPECT_EQ(last().attributes[attr::kEpilogue], Epilogue(Activation::kSilu));
}

TEST_F(BuilderTest, EmitReturnsEveryResult) {
  const ValueId ids = input({6, 2});
  const auto [cos, sin] = b_.rope_table(ids, {4, 8});
  EXPECT_NE(cos, sin);
  EXPECT_EQ(b_.shape(cos), (Shape{6, 6}));
  EXPECT_EQ(b_.shape(sin), (Shape{6, 6}));
  EXPECT_THAT(last().results, ElementsAre(cos, sin));
}

TEST_F(BuilderTest, EveryCallMakesItsOp) {
  const ValueId x = input({1, 2, 4, 4});
  const auto op = [&](ValueId) { return last().op; };
  EXPECT_EQ(op(b_.add(x, x)), Op::kAdd);
  EXPECT_EQ(op(b_.sub(x, x)), Op::kSub);
  EXPECT_EQ(op(b_.mul(x, x)), Op::kMul);
  EXPECT_EQ(op(b_.add_scalar(x, 2)), Op::kAddScalar);
  EXPECT_EQ(op(b_.mul_scalar(x, 2)), Op::kMulScalar);
  EXPECT_EQ(op(b_.silu(x)), Op::kSilu);
  EXPECT_EQ(op(b_.gelu(x)), Op::kGeluTanh);
  EXPECT_EQ(op(b_.gelu(x, "none")), Op::kGeluErf);
  EXPECT_THROW(b_.gelu(x, "fast"), Error);
  EXPECT_EQ(op(b_.matmul(x, x)), Op::kMatmul);
  EXPECT_EQ(op(b_.softmax(x)), Op::kSoftmax);
  EXPECT_EQ(op(b_.layer_norm(x, 1e-6)), Op::kLayerNorm);
  EXPECT_EQ(op(b_.rms_norm(x, b_.param("g", {kF32, Shape{4}}), 1e-6)), Op::kRmsNorm);
  EXPECT_EQ(op(b_.rope(x, input({4, 2}), input({4, 2}))), Op::kRope);
  EXPECT_EQ(op(b_.timestep_embedding(input({3}), 8, 1000)), Op::kTimestepEmbedding);
  EXPECT_EQ(op(b_.transpose(x, {0, 2, 3, 1})), Op::kTranspose);
  EXPECT_EQ(op(b_.row(x, input({}, DType::kI32))), Op::kRow);
  EXPECT_EQ(op(b_.conv2d(x, input({3, 2, 3, 3}), input({3}), Builder::evenly(2, 1))), Op::kConv2d);
  EXPECT_EQ(op(b_.max_pool2d(x, 2)), Op::kMaxPool2d);
}

}  // namespace
}  // namespace headroom
