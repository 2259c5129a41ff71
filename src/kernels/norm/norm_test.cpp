#include <algorithm>
#include <cmath>

#include "testing/highway_check.hpp"

namespace headroom {
namespace {

struct NormTypes {
  DType x;
  DType side;  ///< of weight, scale and shift
};

class Norms : public testing::TestWithParam<NormTypes> {};
INSTANTIATE_TEST_SUITE_P(Stored, Norms,
                         testing::Values(NormTypes{DType::kF32, DType::kF32}, NormTypes{DType::kBF16, DType::kBF16},
                                         NormTypes{DType::kBF16, DType::kF32}),
                         [](const auto& param) {
                           return fmt::format("{}_with_{}", name_of(param.param.side), name_of(param.param.x));
                         });

const std::vector<Shape> kShapes = {{1, 1, 4},  {2, 3, 7},  {2, 3, 8},   {2, 3, 9},    {2, 3, 15},  {2, 1, 16},
                                    {3, 5, 17}, {2, 9, 64}, {2, 5, 768}, {2, 40, 513}, {1, 3, 4100}};

TEST_P(Norms, LayerNormMatchesTheOracle) {
  for (const Shape& shape : kShapes) {
    expect_matches_oracle("highway.layer_norm", make_spec(Op::kLayerNorm, {{GetParam().x, shape}}, {{"eps", 1e-6}}));
  }
}

TEST_P(Norms, LayerNormTakesWeightAndBias) {
  for (const Shape& shape : kShapes) {
    const TensorType x{GetParam().x, shape}, side{GetParam().side, {shape[-1]}};
    expect_matches_oracle("highway.layer_norm", make_spec(Op::kLayerNorm, {x, side}, {{"eps", 1e-6}}));
    expect_matches_oracle("highway.layer_norm", make_spec(Op::kLayerNorm, {x, side, side}, {{"eps", 1e-6}}));
  }
}

TEST_P(Norms, RmsNormMatchesTheOracle) {
  for (const Shape& shape : kShapes) {
    expect_matches_oracle("highway.rms_norm", make_spec(Op::kRmsNorm, {{GetParam().x, shape}}, {{"eps", 1e-6}}));
    expect_matches_oracle(
        "highway.rms_norm",
        make_spec(Op::kRmsNorm, {{GetParam().x, shape}, {GetParam().side, {shape[-1]}}}, {{"eps", 1e-6}}));
  }
  expect_matches_oracle(
      "highway.rms_norm",
      make_spec(Op::kRmsNorm, {{GetParam().x, {2, 3, 4, 24}}, {GetParam().side, {24}}}, {{"eps", 1e-5}}));
}

TEST_P(Norms, NormModulateMatchesTheOracle) {
  for (const Shape& shape : kShapes) {
    const TensorType side{GetParam().side, {shape[0], 1, shape[2]}};
    expect_matches_oracle("highway.norm_modulate",
                          make_spec(Op::kNormModulate, {{GetParam().x, shape}, side, side}, {{"eps", 1e-6}}));
  }
}

// A mean 1000 times the deviation: E[x^2] - E[x]^2 would be left with no correct digit in f32.
TEST(LayerNormValues, SurviveALargeMean) {
  constexpr std::int64_t kWidth = 3072;
  std::vector<float> x(kWidth);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1000.0F + static_cast<float>(i % 7) - 3.0F;
  double mean = 0;
  for (const float value : x) mean += static_cast<double>(value) / kWidth;
  double variance = 0;
  for (const float value : x)
    variance += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean) / kWidth;

  const OpSpec spec = make_spec(Op::kLayerNorm, {{DType::kF32, {kWidth}}}, {{"eps", 1e-6}});
  const Operand operand = dense_operand(spec.inputs[0]);
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  const auto stream = backend->make_stream();
  for_each_highway_target([&] {
    std::vector<float> y(x.size());
    const DevicePointer in = host_place(x.data());
    const DevicePointer out = host_place(y.data());
    const auto prepared = kernel_named("highway.layer_norm").prepare(spec, {&operand, 1}, {&operand, 1}, Target{});
    const Buffer scratch =
        backend->allocate(std::max<std::size_t>(prepared->scratch_bytes(), 1), MemoryCategory::kWorkspace);
    prepared->launch({*stream, {&in, 1}, {&out, 1}, scratch.at()});
    for (std::size_t i = 0; i < x.size(); ++i) {
      // The mean itself rounds to f32: half a unit in the last place of 1000.
      EXPECT_NEAR(static_cast<double>(y[i]), (static_cast<double>(x[i]) - mean) / std::sqrt(variance + 1e-6), 4e-5);
    }
  });
}

}  // namespace
}  // namespace headroom
