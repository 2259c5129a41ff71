#include "testing/gpu_check.hpp"

namespace headroom {
namespace {

using CudaImages = cuda::KernelTest;

constexpr Tolerance kExact{.relative_l2 = 0, .max_ulps_of_peak = 0};
constexpr Layout kLayouts[] = {Layout::kRowMajor, Layout::kChannelsLast};

TEST_F(CudaImages, ResizedMatchTheOracle) {
  struct Case {
    Shape x;
    Ints size;
  };
  for (const Case& c : {Case{{1, 1, 1, 1}, {1, 1}}, Case{{2, 3, 4, 5}, {8, 10}}, Case{{1, 16, 7, 9}, {5, 20}},
                        Case{{2, 8, 9, 6}, {3, 3}}, Case{{2, 64, 24, 20}, {48, 40}}, Case{{1, 17, 300, 4}, {150, 8}}})
    for (const DType dtype : cuda::kDTypes)
      for (const Layout layout : kLayouts) {
        expect_matches_oracle("cuda.resize2d", make_spec(Op::kResize2d, {{dtype, c.x, layout}}, {{"size", c.size}}),
                              kExact);
        expect_matches_oracle("cuda.resize2d", make_spec(Op::kResize2d, {{dtype, c.x, layout}},
                                                         {{"size", c.size}, {"mode", std::string("bilinear")}}));
      }
}

TEST_F(CudaImages, PooledMatchTheOracle) {
  struct Case {
    Shape x;
    std::int64_t window;
  };
  for (const Case& c : {Case{{1, 1, 1, 1}, 1}, Case{{2, 8, 28, 28}, 2}, Case{{3, 5, 9, 7}, 2}, Case{{1, 17, 11, 13}, 3},
                        Case{{2, 64, 14, 14}, 7}})
    for (const DType dtype : cuda::kDTypes)
      for (const Layout layout : kLayouts) {
        expect_matches_oracle("cuda.max_pool2d",
                              make_spec(Op::kMaxPool2d, {{dtype, c.x, layout}}, {{"window", c.window}}), kExact);
        expect_matches_oracle("cuda.avg_pool2d",
                              make_spec(Op::kAvgPool2d, {{dtype, c.x, layout}}, {{"window", c.window}}));
      }
}

}  // namespace
}  // namespace headroom
