#include "base/tensors/shape.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace headroom {
namespace {

TEST(Shape, CountsElements) {
  EXPECT_EQ(Shape({2, 3, 4}).numel(), 24);
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ(Shape({5, 0, 2}).numel(), 0);
}

TEST(Shape, CountsNegativeAxesFromTheEnd) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(shape[-1], 4);
  EXPECT_EQ(shape[-3], 2);
  EXPECT_EQ(shape.axis(-2), 1);
  EXPECT_THROW((void)shape[3], std::logic_error);
  EXPECT_THROW((void)shape[-4], std::logic_error);
  EXPECT_THROW((void)Shape{}[0], std::logic_error);
}

TEST(Shape, SetsAndGrows) {
  Shape shape{2, 3};
  shape.set(-1, 7);
  shape.push_back(5);
  EXPECT_EQ(shape, (Shape{2, 7, 5}));
  EXPECT_EQ(shape.rank(), 3);
}

TEST(Shape, HoldsAtMostEightAxes) {
  Shape shape{1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(shape.rank(), Shape::kMaxRank);
  EXPECT_THROW(shape.push_back(9), std::logic_error);
  const std::vector<std::int64_t> nine(9, 1);
  EXPECT_THROW(Shape{nine}, std::logic_error);
}

TEST(Shape, ComparesRankAndExtents) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2}), (Shape{2, 1}));
  Shape shrunk{4};  // equal, although constructed differently
  Shape grown;
  grown.push_back(4);
  EXPECT_EQ(shrunk, grown);
}

TEST(Shape, PrintsLikeAList) {
  EXPECT_EQ((Shape{2, 256, 4}).to_string(), "[2, 256, 4]");
  EXPECT_EQ(Shape{}.to_string(), "[]");
  EXPECT_EQ(fmt::format("{}", Shape{7}), "[7]");
}

TEST(Shape, RowMajorStrides) {
  EXPECT_EQ(row_major_strides(Shape{2, 3, 4}), (Shape{12, 4, 1}));
  EXPECT_EQ(row_major_strides(Shape{5}), (Shape{1}));
  EXPECT_EQ(row_major_strides(Shape{}), Shape{});
}

}  // namespace
}  // namespace headroom
