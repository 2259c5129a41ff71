#include "plan/strides.hpp"

#include <gtest/gtest.h>

namespace headroom {
namespace {

TEST(Strides, ReshapeOfADenseTensorIsAlwaysAView) {
  EXPECT_EQ(reshape_strides({2, 3, 4}, {12, 4, 1}, {6, 4}), (Shape{4, 1}));
  EXPECT_EQ(reshape_strides({2, 12}, {12, 1}, {2, 3, 4}), (Shape{12, 4, 1}));
  EXPECT_EQ(reshape_strides({24}, {1}, {2, 1, 12}), (Shape{12, 12, 1}));
}

TEST(Strides, ReshapeOfASliceSplitsItsInnerAxisOnly) {
  // Columns 12..23 of [2, 36]: rows stay 36 apart.
  EXPECT_EQ(reshape_strides({2, 12}, {36, 1}, {2, 3, 4}), (Shape{36, 4, 1}));
  EXPECT_EQ(reshape_strides({2, 12}, {36, 1}, {24}), std::nullopt);
}

TEST(Strides, ReshapeThatMergesTransposedAxesNeedsACopy) {
  EXPECT_EQ(reshape_strides({2, 5, 3, 4}, {60, 4, 20, 1}, {2, 5, 12}), std::nullopt);
}

TEST(Strides, AxesOfExtentOneDoNotMatter) {
  EXPECT_TRUE(satisfies(StrideRule::kDense, {1, 3, 4}, {999, 4, 1}));
  EXPECT_TRUE(satisfies(StrideRule::kDense, {3, 1, 4}, {4, 999, 1}));
  EXPECT_FALSE(satisfies(StrideRule::kDense, {2, 3, 4}, {24, 4, 1}));
  EXPECT_EQ(reshape_strides({2, 1, 4}, {8, 77, 1}, {2, 4}), (Shape{8, 1}));
}

TEST(Strides, InnerDenseAllowsGapsOutsideOnly) {
  EXPECT_TRUE(satisfies(StrideRule::kInnerDense, {2, 3, 4}, {100, 10, 1}));
  EXPECT_FALSE(satisfies(StrideRule::kInnerDense, {2, 3, 4}, {100, 1, 10}));
  EXPECT_TRUE(satisfies(StrideRule::kAny, {2, 3, 4}, {100, 1, 10}));
}

}  // namespace
}  // namespace headroom
