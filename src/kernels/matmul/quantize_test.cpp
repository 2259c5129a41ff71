#include <cmath>
#include <limits>

#include "testing/highway_check.hpp"

namespace headroom {
namespace {

OpSpec quantize_spec(DType from, const Shape& shape) {
  return make_spec(Op::kQuantize, {{from, shape}}, {{"dtype", DType::kI8}});
}

TEST(Quantize, MatchesTheOracle) {
  for (const DType from : {DType::kF32, DType::kBF16}) {
    for (const Shape& shape : {Shape{1}, Shape{7, 1}, Shape{3, 15}, Shape{5, 16}, Shape{2, 17}, Shape{2, 3, 33},
                               Shape{4, 192}, Shape{300, 127}})
      expect_matches_oracle("highway.quantize", quantize_spec(from, shape));
  }
}

struct Quantized {
  std::vector<std::int8_t> q;
  float scale = 0;
};

Quantized quantize(const std::vector<float>& row) {
  const OpSpec spec = quantize_spec(DType::kF32, Shape{static_cast<std::int64_t>(row.size())});
  const Operand in = dense_operand(spec.inputs[0]);
  const std::vector<Operand> out{dense_operand(spec.outputs[0]), dense_operand(spec.outputs[1])};
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  const auto stream = backend->make_stream();
  Quantized result{std::vector<std::int8_t>(row.size(), 55), 0};
  const DevicePointer source = host_place(row.data());
  const DevicePointer targets[] = {host_place(result.q.data()), host_place(&result.scale)};
  kernel_named("highway.quantize").prepare(spec, {&in, 1}, out, Target{})->launch({*stream, {&source, 1}, targets, {}});
  return result;
}

TEST(Quantize, RoundsTiesToEvenAndReachesBothEnds) {
  for_each_highway_target([] {
    const Quantized result = quantize({-127, 127, 0.5F, 1.5F, 2.5F, -0.5F, -1.5F, 126.5F, 0.49F});
    EXPECT_EQ(result.scale, 1.0F);
    EXPECT_THAT(result.q, testing::ElementsAre(-127, 127, 0, 2, 2, 0, -2, 126, 0));
  });
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Quantize, RowsOfNothingOrOfNoNumberSayIt) {
  for_each_highway_target([] {
    EXPECT_EQ(quantize(std::vector<float>(40, 0.0F)).scale, 1.0F);
    EXPECT_EQ(quantize(std::vector<float>(40, 1e-40F)).scale, 1.0F);
    EXPECT_THAT(quantize(std::vector<float>(40, 1e-40F)).q, testing::Each(0));
    for (const std::size_t place : {0U, 17U, 39U}) {
      std::vector<float> row(40, 2.0F);
      row[place] = std::nanf("");
      EXPECT_TRUE(std::isnan(quantize(row).scale));
      row[place] = -kInfinity;
      EXPECT_EQ(quantize(row).scale, kInfinity);
      EXPECT_THAT(quantize(row).q, testing::Each(0));
    }
  });
}

TEST(Quantize, SaysWhatItTakes) {
  const auto reason = [](const OpSpec& spec) {
    const Support rejection = kernel_named("highway.quantize").supports(spec, Target{});
    return rejection ? rejection->reason : "supported";
  };
  EXPECT_EQ(reason(quantize_spec(DType::kF64, Shape{2, 4})), "takes f32 or bf16, not f64");
  EXPECT_EQ(reason(make_spec(Op::kQuantize, {{DType::kF32, Shape{2, 4}}}, {{"dtype", DType::kF8E4M3}})),
            "makes i8, not f8e4m3");
  const Cost cost = kernel_named("highway.quantize").cost(quantize_spec(DType::kF32, Shape{2, 4}));
  EXPECT_EQ(cost.bytes, 8 * 4 + 8 + 2 * 4);
  EXPECT_EQ(cost.flops, 24);
}

}  // namespace
}  // namespace headroom
