#include <cmath>
#include <limits>
#include <vector>

#include "testing/highway_check.hpp"

namespace headroom {
namespace {

class Cumsum : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Stored, Cumsum, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& param) { return std::string(name_of(param.param)); });

TEST_P(Cumsum, MatchesTheOracle) {
  for (const Shape& shape : {Shape{1}, Shape{3, 7}, Shape{2, 8}, Shape{2, 3, 15}, Shape{5, 16}, Shape{2, 2, 17},
                             Shape{4, 33}, Shape{3, 4096}, Shape{9, 5000}})
    expect_matches_oracle("highway.cumsum", make_spec(Op::kCumsum, {{GetParam(), shape}}));
}

/// The kernel on one row.
std::vector<float> cumsum(const std::vector<float>& x) {
  const OpSpec spec = make_spec(Op::kCumsum, {{DType::kF32, {static_cast<std::int64_t>(x.size())}}});
  const Operand operand = dense_operand(spec.inputs[0]);
  const auto stream = make_backend(DeviceKind::kCpu, 1)->make_stream();
  std::vector<float> y(x.size());
  const DevicePointer in = host_place(x.data());
  const DevicePointer out = host_place(y.data());
  kernel_named("highway.cumsum")
      .prepare(spec, {&operand, 1}, {&operand, 1}, Target{})
      ->launch({*stream, {&in, 1}, {&out, 1}, {}});
  return y;
}

// Sequential sums in f32 would saturate at 2^24.
TEST(CumsumOfALongRow, StaysExact) {
  for_each_highway_target([] {
    const std::vector<float> y = cumsum(std::vector<float>((1 << 24) + 64, 1.0F));
    EXPECT_EQ(y[(1 << 24) - 1], 0x1p24F);
    EXPECT_EQ(y.back(), 0x1p24F + 64);
  });
}

TEST(CumsumOfInfinity, LeavesWhatStandsBeforeIt) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> x(40, 1.0F);
  x[5] = infinity;
  x[21] = -infinity;
  for_each_highway_target([&] {
    const std::vector<float> y = cumsum(x);
    EXPECT_EQ(y[4], 5.0F);
    for (std::size_t i = 5; i < 21; ++i) EXPECT_EQ(y[i], infinity) << i;
    for (std::size_t i = 21; i < y.size(); ++i) EXPECT_TRUE(std::isnan(y[i])) << i;
  });
}

TEST(CumsumSupport, DeclinesOtherDtypesWithAReason) {
  const Support support =
      kernel_named("highway.cumsum").supports(make_spec(Op::kCumsum, {{DType::kF64, {4}}}), Target{});
  EXPECT_EQ(support.value_or(Rejection{}).reason, "stores f32 or bf16, not f64");
}

}  // namespace
}  // namespace headroom
