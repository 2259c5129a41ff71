#include <algorithm>
#include <cmath>
#include <vector>

#include "testing/highway_check.hpp"

namespace headroom {
namespace {

struct Case {
  Shape shape;
  std::int64_t groups;
  std::int64_t channels = 0;
};

// One element a group and one group in all; rows shorter than a vector, of none and of several pieces; channels
// after the groups.
const std::vector<Case> kCases = {{{1, 4, 1, 1}, 2},      {{2, 6, 3, 5}, 3},     {{2, 6, 3, 5}, 6},
                                  {{2, 6, 3, 5}, 1},      {{3, 32, 4, 4}, 8},    {{1, 37, 5, 7}, 37},
                                  {{2, 40, 3, 9}, 4, 36}, {{1, 1, 129, 130}, 1}, {{1, 64, 10, 9}, 32},
                                  {{1, 160, 11, 11}, 32}, {{1, 24, 9, 8}, 3, 3}};

OpSpec spec(const Case& item, DType x, DType side, Layout layout, std::size_t vectors, Activation activation) {
  const std::int64_t channels = item.shape[1];
  std::vector<TensorType> inputs = {{x, item.shape, layout}};
  inputs.resize(1 + vectors, {side, Shape{channels}});
  return make_spec(
      Op::kGroupNorm, std::move(inputs),
      {{"groups", item.groups}, {"eps", 1e-5}, {"channels", item.channels}, {attr::kEpilogue, Epilogue(activation)}});
}

struct Types {
  DType x, side;
};
class GroupNorm : public testing::TestWithParam<std::tuple<Types, Layout>> {
 protected:
  void matches(const Case& item, std::size_t vectors, Activation activation) {
    const auto& [types, layout] = GetParam();
    expect_matches_oracle("highway.group_norm", spec(item, types.x, types.side, layout, vectors, activation));
  }
};
std::string name_of_case(const testing::TestParamInfo<std::tuple<Types, Layout>>& info) {
  const auto& [types, layout] = info.param;
  return fmt::format("{}_with_{}_{}", name_of(types.side), name_of(types.x),
                     layout == Layout::kRowMajor ? "rows" : "channels_last");
}
INSTANTIATE_TEST_SUITE_P(Stored, GroupNorm,
                         testing::Combine(testing::Values(Types{DType::kF32, DType::kF32},
                                                          Types{DType::kBF16, DType::kBF16},
                                                          Types{DType::kBF16, DType::kF32}),
                                          testing::Values(Layout::kRowMajor, Layout::kChannelsLast)),
                         name_of_case);

TEST_P(GroupNorm, MatchesTheOracle) {
  for (const Case& item : kCases) matches(item, 2, Activation::kNone);
}

TEST_P(GroupNorm, NeedsNeitherWeightNorBias) {
  for (const std::size_t vectors : {0, 1}) {
    matches({{2, 6, 3, 5}, 3}, vectors, Activation::kSilu);
    matches({{2, 40, 3, 9}, 4, 36}, vectors, Activation::kNone);
  }
}

TEST_P(GroupNorm, AppliesItsActivation) {
  for (const Activation activation :
       {Activation::kSilu, Activation::kGeluTanh, Activation::kGeluErf, Activation::kRelu}) {
    matches({{2, 6, 3, 5}, 3}, 2, activation);
    matches({{1, 64, 20, 19}, 16, 48}, 2, activation);
  }
}

TEST(GroupNormRows, TakesAnyRank) {
  for (const Shape& shape : {Shape{5, 6}, Shape{2, 6, 31}, Shape{2, 6, 2, 3, 4}})
    expect_matches_oracle("highway.group_norm",
                          spec({shape, 2}, DType::kF32, DType::kF32, Layout::kRowMajor, 2, Activation::kSilu));
}

// A mean 1000 times the deviation, over far more elements than an f32 counts one by one.
TEST(GroupNormValues, SurviveALargeMeanOfManyElements) {
  constexpr std::int64_t kChannels = 4, kSide = 600;
  const auto backend = make_backend(DeviceKind::kCpu, 2);
  const auto stream = backend->make_stream();
  for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast}) {
    const OpSpec given =
        spec({{1, kChannels, kSide, kSide}, 1}, DType::kF32, DType::kF32, layout, 0, Activation::kNone);
    std::vector<float> x(static_cast<std::size_t>(kChannels * kSide * kSide));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1000.0F + static_cast<float>(i % 7) - 3.0F;
    double mean = 0, variance = 0;
    for (const float value : x) mean += static_cast<double>(value) / static_cast<double>(x.size());
    for (const float value : x)
      variance += std::pow(static_cast<double>(value) - mean, 2) / static_cast<double>(x.size());
    const Operand operand = dense_operand(given.inputs[0]);
    for_each_highway_target([&] {
      std::vector<float> y(x.size());
      const DevicePointer in = host_place(x.data());
      const DevicePointer out = host_place(y.data());
      const auto prepared =
          kernel_named("highway.group_norm").prepare(given, {&operand, 1}, {&operand, 1}, Target{.threads = 2});
      const Buffer scratch = backend->allocate(prepared->scratch_bytes(), MemoryCategory::kWorkspace);
      prepared->launch({*stream, {&in, 1}, {&out, 1}, scratch.at()});
      double worst = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double expected = (static_cast<double>(x[i]) - mean) / std::sqrt(variance + 1e-5);
        worst = std::max(worst, std::fabs(static_cast<double>(y[i]) - expected));
      }
      EXPECT_LT(worst, 1e-6);
    });
  }
}

}  // namespace
}  // namespace headroom
