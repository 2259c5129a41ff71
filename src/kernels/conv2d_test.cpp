#include <gtest/gtest.h>

#include <vector>

#include "kernels/onednn/test_target.hpp"

namespace headroom {
namespace {

using onednn::expect_agrees;
using onednn::prepare_dense;
using onednn::test_target;

struct Case {
  Shape x;       // [b, c, h, w]
  Shape weight;  // [o, c, kh, kw]
  std::int64_t stride = 1;
  std::int64_t padding = 0;
};

OpSpec conv2d_spec(const Case& c, DType dtype = DType::kF32, Layout layout = Layout::kRowMajor, bool is_weight = true) {
  return make_spec(Op::kConv2d, {{dtype, c.x, layout}, {dtype, c.weight}, {dtype, Shape{c.weight[0]}}},
                   {{"stride", c.stride}, {"padding", c.padding}}, {false, is_weight, is_weight});
}

// Small filters and 1x1 run as a gemm on row-major images, larger ones convert: both are here.
const std::vector<Case>& cases() {
  static const std::vector<Case> all_cases = {{{1, 1, 1, 1}, {1, 1, 1, 1}},
                                              {{2, 1, 28, 28}, {8, 1, 3, 3}, 1, 1},
                                              {{2, 8, 14, 14}, {16, 8, 3, 3}, 1, 1},
                                              {{3, 5, 9, 7}, {7, 5, 3, 2}, 2, 1},
                                              {{1, 3, 20, 17}, {17, 3, 7, 7}, 2, 3},
                                              {{2, 33, 6, 5}, {19, 33, 1, 1}},
                                              {{1, 64, 12, 12}, {48, 64, 3, 3}, 1, 1},
                                              {{2, 4, 8, 8}, {24, 4, 2, 2}, 2, 0},
                                              {{1, 2, 3, 3}, {1, 2, 3, 3}, 2, 0}};
  return all_cases;
}

TEST(OnednnConv2d, AgreesForEveryShapeLayoutAndDtype) {
  for (const Case& c : cases())
    for (const DType dtype : {DType::kF32, DType::kBF16})
      for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast})
        for (const bool is_weight : {false, true}) {
          SCOPED_TRACE(fmt::format("{} x{} weight{} stride={} padding={} layout={} weight={}", dtype, c.x, c.weight,
                                   c.stride, c.padding, static_cast<int>(layout), is_weight));
          expect_agrees("onednn.conv2d", conv2d_spec(c, dtype, layout, is_weight));
        }
}

TEST(OnednnConv2d, PacksFoldedWeightsOnly) {
  const Case& c = cases()[6];
  const auto folded = prepare_dense("onednn.conv2d", conv2d_spec(c), test_target());
  ASSERT_EQ(folded->packed_weights().size(), 1U);
  EXPECT_EQ(folded->packed_weights()[0].input, 1);
  EXPECT_GE(folded->packed_weights()[0].bytes, 48U * 64 * 9 * 4);
  const auto other =
      prepare_dense("onednn.conv2d", conv2d_spec(c, DType::kF32, Layout::kRowMajor, false), test_target());
  EXPECT_TRUE(other->packed_weights().empty());
}

TEST(OnednnConv2d, CountsItsWork) {
  const Cost cost = kernel_named("onednn.conv2d").cost(conv2d_spec({{2, 3, 8, 8}, {5, 3, 3, 3}, 1, 1}));
  EXPECT_EQ(cost.flops, 2.0 * 5 * 64 * (2 * 27 + 1));
  EXPECT_EQ(cost.bytes, 4.0 * (2 * 3 * 64 + 5 * 27 + 5 + 2 * 5 * 64));
  EXPECT_EQ(cost.unit, ComputeUnit::kMatrix);
}

TEST(OnednnConv2d, RejectsWithReasons) {
  const Target target = test_target();
  const Support rejection = kernel_named("onednn.conv2d").supports(conv2d_spec(cases()[1], DType::kF16), target);
  ASSERT_TRUE(rejection.has_value());
  EXPECT_EQ(rejection->reason, "takes f32 or bf16, not f16");
  const Support empty = kernel_named("onednn.conv2d").supports(conv2d_spec({{0, 1, 4, 4}, {2, 1, 3, 3}}), target);
  ASSERT_TRUE(empty.has_value());
  EXPECT_EQ(empty->reason, "an operand has no elements");
}

}  // namespace
}  // namespace headroom
