#include <bit>
#include <numeric>

#include "testing/highway_check.hpp"

namespace headroom {
namespace {

OpSpec cast_spec(DType from, DType to, const Shape& shape) {
  return make_spec(Op::kCast, {{from, shape}}, {{"dtype", to}});
}

TEST(Cast, EveryPairOfDTypesMatchesTheOracle) {
  constexpr std::array kAll = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2,
                               DType::kI64, DType::kI32, DType::kI8,  DType::kU8,   DType::kBool};
  for (const DType from : kAll) {
    for (const DType to : kAll) expect_matches_oracle("highway.cast", cast_spec(from, to, {3, 19}));
  }
}

TEST(Cast, VectorizedPairsTakeAnyLength) {
  for (const std::int64_t n : {1, 7, 8, 9, 15, 16, 17, 16500}) {
    expect_matches_oracle("highway.cast", cast_spec(DType::kF32, DType::kBF16, {2, n}));
    expect_matches_oracle("highway.cast", cast_spec(DType::kBF16, DType::kF32, {2, n}));
    expect_matches_oracle("highway.cast", cast_spec(DType::kF16, DType::kF32, {2, n}));
  }
}

/// Casts `bits` as they are in memory.
template <typename From, typename To>
std::vector<To> cast(const std::vector<From>& bits, DType from, DType to) {
  const OpSpec spec = cast_spec(from, to, {static_cast<std::int64_t>(bits.size())});
  const Operand in = dense_operand(spec.inputs[0]);
  const Operand out = dense_operand(spec.outputs[0]);
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  const auto stream = backend->make_stream();
  std::vector<To> result(bits.size());
  const DevicePointer source = host_place(bits.data()), target = host_place(result.data());
  kernel_named("highway.cast")
      .prepare(spec, {&in, 1}, {&out, 1}, Target{})
      ->launch({*stream, {&source, 1}, {&target, 1}, {}});
  return result;
}

// All halves and all bf16, and f32 on, just below and just above every tie between two bf16: infinities, NaN and
// subnormals too.
TEST(Cast, AgreesWithTheScalarConversionsBitForBit) {
  std::vector<std::uint16_t> halves(65536);
  std::iota(halves.begin(), halves.end(), std::uint16_t{0});
  std::vector<std::uint32_t> singles;
  for (const std::uint32_t upper : halves) {
    for (const std::uint32_t lower : {0U, 1U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU})
      singles.push_back(upper << 16 | lower);
  }
  for_each_highway_target([&] {
    const auto from_f16 = cast<std::uint16_t, float>(halves, DType::kF16, DType::kF32);
    const auto from_bf16 = cast<std::uint16_t, std::uint32_t>(halves, DType::kBF16, DType::kF32);
    int wrong = 0;
    for (std::size_t i = 0; i < halves.size(); ++i) {
      const double expected = load_as_double(&halves[i], DType::kF16);
      const double got = static_cast<double>(from_f16[i]);
      wrong += std::isnan(expected) ? !std::isnan(got) : got != expected;
      wrong += from_bf16[i] != static_cast<std::uint32_t>(halves[i]) << 16;
    }
    EXPECT_EQ(wrong, 0);
    const auto to_bf16 = cast<std::uint32_t, std::uint16_t>(singles, DType::kF32, DType::kBF16);
    for (std::size_t i = 0; i < singles.size(); ++i)
      wrong += to_bf16[i] != float_to_bf16(std::bit_cast<float>(singles[i]));
    EXPECT_EQ(wrong, 0);
  });
}

}  // namespace
}  // namespace headroom
