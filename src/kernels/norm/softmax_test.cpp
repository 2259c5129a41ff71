#include <algorithm>

#include "testing/highway_check.hpp"

namespace headroom {
namespace {

class Softmax : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Stored, Softmax, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& param) { return std::string(name_of(param.param)); });

TEST_P(Softmax, MatchesTheOracle) {
  const std::vector<Shape> shapes = {{1},         {17},       {5, 1},     {3, 2},      {2, 3, 7},
                                     {2, 3, 8},   {2, 3, 15}, {2, 3, 16}, {2, 3, 17},  {2, 5, 272},
                                     {4, 31, 33}, {3, 5000},  {130, 272}, {2, 2, 3, 5}};
  for (const Shape& shape : shapes)
    expect_matches_oracle("highway.softmax", make_spec(Op::kSoftmax, {{GetParam(), shape}}));
}

/// softmax of one row given as T, f32 or the bits of bf16.
template <class T>
std::vector<T> softmax(const std::vector<T>& x) {
  const DType dtype = sizeof(T) == sizeof(float) ? DType::kF32 : DType::kBF16;
  const OpSpec spec = make_spec(Op::kSoftmax, {{dtype, {static_cast<std::int64_t>(x.size())}}});
  const Operand operand = dense_operand(spec.inputs[0]);
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  const auto stream = backend->make_stream();
  std::vector<T> y(x.size());
  const DevicePointer in = host_place(x.data());
  const DevicePointer out = host_place(y.data());
  const auto prepared = kernel_named("highway.softmax").prepare(spec, {&operand, 1}, {&operand, 1}, Target{});
  const Buffer scratch =
      backend->allocate(std::max<std::size_t>(prepared->scratch_bytes(), 1), MemoryCategory::kWorkspace);
  prepared->launch({*stream, {&in, 1}, {&out, 1}, scratch.at()});
  return y;
}

TEST(SoftmaxValues, LargeScoresDoNotOverflowAndMaskedOnesAreZero) {
  const float infinity = std::numeric_limits<float>::infinity();
  for_each_highway_target([&] {
    std::vector<float> x(19, -infinity);
    x[3] = 1e30F;
    x[18] = 1e30F;
    const std::vector<float> y = softmax(x);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], i == 3 || i == 18 ? 0.5F : 0.0F) << i;
  });
}

TEST(SoftmaxValues, LargeScoresInBf16DoNotOverflow) {
  constexpr std::uint16_t kHalf = 0x3F00, kLowest = 0xFF80;
  for_each_highway_target([&] {
    for (std::uint16_t large = 0x4B01; large < 0x7F80; large = static_cast<std::uint16_t>(large + 57)) {  // from 8e6
      std::vector<std::uint16_t> x(70, kLowest);
      x[3] = large;
      x[69] = large;
      const std::vector<std::uint16_t> y = softmax(x);
      for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], i == 3 || i == 69 ? kHalf : 0) << i << " " << large;
    }
  });
}

TEST(SoftmaxValues, ANanSpoilsItsRow) {
  for_each_highway_target([&] {
    std::vector<float> x(19, 1.0F);
    x[7] = std::numeric_limits<float>::quiet_NaN();
    for (const float value : softmax(x)) EXPECT_TRUE(std::isnan(value));
  });
}

}  // namespace
}  // namespace headroom
