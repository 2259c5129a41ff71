#include <gtest/gtest.h>

#include "kernels/onednn/test_target.hpp"

namespace headroom {
namespace {

OpSpec pool_spec(const Shape& x, std::int64_t window, DType dtype = DType::kF32, Layout layout = Layout::kRowMajor) {
  return make_spec(Op::kMaxPool2d, {{dtype, x, layout}}, {{"window", window}});
}

TEST(OnednnMaxPool2d, IsExactForEveryShapeLayoutAndDtype) {
  struct Case {
    Shape x;
    std::int64_t window;
  };
  for (const Case& c : {Case{{1, 1, 1, 1}, 1}, Case{{2, 8, 28, 28}, 2}, Case{{3, 5, 9, 7}, 2}, Case{{1, 17, 11, 13}, 3},
                        Case{{2, 64, 14, 14}, 7}})
    for (const DType dtype : {DType::kF32, DType::kBF16})
      for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast}) {
        SCOPED_TRACE(fmt::format("{} x{} window={} layout={}", dtype, c.x, c.window, static_cast<int>(layout)));
        const OpSpec spec = pool_spec(c.x, c.window, dtype, layout);
        const Target target = onednn::test_target();
        if (dtype == DType::kBF16 && target.cpu_isa < CpuIsa::kAvx512) {
          EXPECT_TRUE(kernel_named("onednn.max_pool2d").supports(spec, target).has_value());
          continue;
        }
        const Comparison comparison = compare_with_oracle(kernel_named("onednn.max_pool2d"), spec, target, 5,
                                                          {.relative_l2 = 0, .max_ulps_of_peak = 0});
        EXPECT_TRUE(comparison.passed) << comparison.message;
      }
}

TEST(OnednnMaxPool2d, CountsItsWork) {
  const Cost cost = kernel_named("onednn.max_pool2d").cost(pool_spec(Shape{2, 3, 8, 6}, 2));
  EXPECT_EQ(cost.flops, 2.0 * 3 * 8 * 6);
  EXPECT_EQ(cost.bytes, 4.0 * (2 * 3 * 8 * 6 + 2 * 3 * 4 * 3));
  EXPECT_EQ(cost.unit, ComputeUnit::kVector);
}

TEST(OnednnMaxPool2d, RejectsWithReasons) {
  const Support rejection =
      kernel_named("onednn.max_pool2d").supports(pool_spec(Shape{1, 1, 4, 4}, 2, DType::kF64), onednn::test_target());
  ASSERT_TRUE(rejection.has_value());
  EXPECT_EQ(rejection->reason, "takes f32 or bf16, not f64");
}

}  // namespace
}  // namespace headroom
