#include <gtest/gtest.h>

#include <functional>

#include "testing/onednn_target.hpp"

namespace headroom {
namespace {

OpSpec pool_spec(Op op, const Shape& x, std::int64_t window, DType dtype = DType::kF32,
                 Layout layout = Layout::kRowMajor) {
  return make_spec(op, {{dtype, x, layout}}, {{"window", window}});
}

struct PoolCase {
  Shape x;
  std::int64_t window;
};
const PoolCase kCases[] = {
    {{1, 1, 1, 1}, 1}, {{2, 8, 28, 28}, 2}, {{3, 5, 9, 7}, 2}, {{1, 17, 11, 13}, 3}, {{2, 64, 14, 14}, 7}};

/// For every shape, layout and dtype.
void expect_agrees(std::string_view kernel, Op op, const std::function<Tolerance(DType)>& tolerance) {
  for (const PoolCase& c : kCases)
    for (const DType dtype : {DType::kF32, DType::kBF16})
      for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast}) {
        SCOPED_TRACE(fmt::format("{} x{} window={} layout={}", dtype, c.x, c.window, static_cast<int>(layout)));
        const OpSpec spec = pool_spec(op, c.x, c.window, dtype, layout);
        const DeviceTarget target = onednn::test_target();
        if (dtype == DType::kBF16 && op == Op::kAvgPool2d && target.cpu_isa < CpuIsa::kAvx512) {
          EXPECT_TRUE(kernel_named(kernel).supports(spec, target).has_value());
          continue;
        }
        const Comparison comparison = compare_with_oracle(kernel_named(kernel), spec, target, 5, tolerance(dtype));
        EXPECT_TRUE(comparison.passed) << comparison.message;
      }
}

TEST(MaxPool2d, IsExactForEveryShapeLayoutAndDtype) {
  expect_agrees("plain.max_pool2d", Op::kMaxPool2d,
                [](DType) { return Tolerance{.relative_l2 = 0, .max_ulps_of_peak = 0}; });
}

TEST(OnednnAvgPool2d, MatchesTheOracleForEveryShapeLayoutAndDtype) {
  expect_agrees("onednn.avg_pool2d", Op::kAvgPool2d, default_tolerance);
}

TEST(MaxPool2d, CountsItsWork) {
  const Cost cost = kernel_named("plain.max_pool2d").cost(pool_spec(Op::kMaxPool2d, Shape{2, 3, 8, 6}, 2));
  EXPECT_EQ(cost.flops, 2.0 * 3 * 8 * 6);
  EXPECT_EQ(cost.bytes, 4.0 * (2 * 3 * 8 * 6 + 2 * 3 * 4 * 3));
  EXPECT_EQ(cost.unit, ComputeUnit::kVector);
}

TEST(OnednnAvgPool2d, RejectsWithReasons) {
  const Support rejection =
      kernel_named("onednn.avg_pool2d")
          .supports(pool_spec(Op::kAvgPool2d, Shape{1, 1, 4, 4}, 2, DType::kF64), onednn::test_target());
  ASSERT_TRUE(rejection.has_value());
  EXPECT_EQ(rejection->reason, "takes f32 or bf16, not f64");
}

}  // namespace
}  // namespace headroom
