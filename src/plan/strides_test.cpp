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

bool takes(const StrideRule& rule, Shape shape, Shape strides, std::size_t offset = 0) {
  return satisfies(rule, {.dtype = DType::kBF16, .shape = shape}, strides, offset);
}

TEST(Strides, AxesOfExtentOneDoNotMatter) {
  EXPECT_TRUE(takes(StrideRule::kDense, {1, 3, 4}, {999, 4, 1}));
  EXPECT_TRUE(takes(StrideRule::kDense, {3, 1, 4}, {4, 999, 1}));
  EXPECT_FALSE(takes(StrideRule::kDense, {2, 3, 4}, {24, 4, 1}));
  EXPECT_EQ(reshape_strides({2, 1, 4}, {8, 77, 1}, {2, 4}), (Shape{8, 1}));
}

TEST(Strides, InnerDenseAllowsGapsOutsideOnly) {
  EXPECT_TRUE(takes(StrideRule::kInnerDense, {2, 3, 4}, {100, 10, 1}));
  EXPECT_FALSE(takes(StrideRule::kInnerDense, {2, 3, 4}, {100, 1, 10}));
  EXPECT_TRUE(takes(StrideRule::kAny, {2, 3, 4}, {100, 1, 10}));
}

TEST(Strides, AlignmentIsOfTheAddressAndOfEveryStrideThatLeavesGaps) {
  const StrideRule wide(StrideRule::kInnerDense, 16);  // 8 elements
  EXPECT_TRUE(takes(wide, {3, 8}, {24, 1}, 32));
  EXPECT_FALSE(takes(wide, {3, 8}, {24, 1}, 8)) << "the address";
  EXPECT_FALSE(takes(wide, {3, 8}, {20, 1}, 32)) << "a stride";
  EXPECT_TRUE(takes(wide, {1, 8}, {20, 1}, 32)) << "of an axis of extent 1";
  EXPECT_TRUE(takes(wide, {3, 5}, {5, 1}, 0)) << "dense";
}

}  // namespace
}  // namespace headroom
