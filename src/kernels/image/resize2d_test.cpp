#include "testing/highway_check.hpp"

namespace headroom {
namespace {

TEST(Resize2d, MatchesTheOracle) {
  struct Case {
    Shape x;
    Ints size;
  };
  for (const Case& c : {Case{{1, 1, 1, 1}, {1, 1}}, Case{{2, 3, 4, 5}, {8, 10}}, Case{{1, 17, 7, 9}, {5, 20}},
                        Case{{2, 8, 9, 6}, {3, 3}}, Case{{1, 40, 24, 20}, {48, 40}}})
    for (const DType dtype : {DType::kF32, DType::kBF16})
      for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast}) {
        const OpSpec nearest = make_spec(Op::kResize2d, {{dtype, c.x, layout}}, {{"size", c.size}});
        expect_matches_oracle("highway.resize2d", nearest, {.relative_l2 = 0, .max_ulps_of_peak = 0});
        expect_matches_oracle("highway.resize2d", make_spec(Op::kResize2d, {{dtype, c.x, layout}},
                                                            {{"size", c.size}, {"mode", std::string("bilinear")}}));
      }
}

TEST(Resize2d, DeclinesOtherDtypesWithAReason) {
  const OpSpec spec =
      make_spec(Op::kResize2d, {{DType::kF64, {1, 1, 2, 2}}}, {{"size", std::vector<std::int64_t>{4, 4}}});
  EXPECT_EQ(kernel_named("highway.resize2d").supports(spec, Target{}).value_or(Rejection{}).reason,
            "stores f32 or bf16, not f64");
}

}  // namespace
}  // namespace headroom
