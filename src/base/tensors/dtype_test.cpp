#include "base/tensors/dtype.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace headroom {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

constexpr DType kAllDTypes[] = {
#define HR_DTYPE(enumerator, ...) DType::enumerator,
#include "base/tensors/dtypes.def"
#undef HR_DTYPE
};

double decode(DType dtype, std::uint64_t bits) { return load_as_double(&bits, dtype); }

std::uint64_t encode(DType dtype, double value) {
  std::uint64_t bits = 0;
  store_from_double(&bits, dtype, value);
  return bits;
}

double round_trip(DType dtype, double value) { return decode(dtype, encode(dtype, value)); }

class SmallFloat : public testing::TestWithParam<DType> {
 protected:
  [[nodiscard]] std::uint64_t codes() const { return std::uint64_t{1} << (8 * size_of(GetParam())); }
  /// Value to code of every finite number of the format; minus zero is left out.
  [[nodiscard]] std::map<double, std::uint64_t> finite_numbers() const {
    std::map<double, std::uint64_t> numbers;
    for (std::uint64_t code = 0; code < codes(); ++code) {
      const double value = decode(GetParam(), code);
      if (std::isfinite(value) && !(value == 0 && std::signbit(value))) numbers.emplace(value, code);
    }
    return numbers;
  }
};

INSTANTIATE_TEST_SUITE_P(Formats, SmallFloat,
                         testing::Values(DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2),
                         [](const auto& param_info) { return std::string(name_of(param_info.param)); });

TEST_P(SmallFloat, EveryCodeSurvivesDecodingAndEncoding) {
  for (std::uint64_t code = 0; code < codes(); ++code) {
    const double value = decode(GetParam(), code);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(round_trip(GetParam(), value))) << code;
    } else {
      EXPECT_EQ(encode(GetParam(), value), code) << value;
    }
  }
}

TEST_P(SmallFloat, RoundsToNearestAndTiesToEvenBetweenAllNeighbours) {
  const auto numbers = finite_numbers();
  for (auto low = numbers.begin(), high = std::next(low); high != numbers.end(); ++low, ++high) {
    const double middle = (low->first + high->first) / 2;  // exact: both have far fewer bits than a double
    const std::uint64_t even = low->second % 2 == 0 ? low->second : high->second;
    // Zero is reached from below as minus zero, which is equal as a number.
    EXPECT_EQ(round_trip(GetParam(), middle), decode(GetParam(), even)) << middle;
    EXPECT_EQ(round_trip(GetParam(), std::nextafter(middle, -kInfinity)), low->first) << middle;
    EXPECT_EQ(round_trip(GetParam(), std::nextafter(middle, kInfinity)), high->first) << middle;
  }
}

TEST_P(SmallFloat, IsSymmetricInSign) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> mantissa(1, 2);
  std::uniform_int_distribution<int> exponent(-24, 24);
  for (int i = 0; i < 1000; ++i) {
    const double value = std::ldexp(mantissa(random), exponent(random));
    EXPECT_EQ(round_trip(GetParam(), -value), -round_trip(GetParam(), value)) << value;
  }
  EXPECT_TRUE(std::signbit(round_trip(GetParam(), -0.0)));
  EXPECT_FALSE(std::signbit(round_trip(GetParam(), 0.0)));
}

TEST_P(SmallFloat, KeepsNaN) {
  EXPECT_TRUE(std::isnan(round_trip(GetParam(), kNaN)));
  EXPECT_TRUE(std::isnan(round_trip(GetParam(), -kNaN)));
}

TEST(DTypeLimits, LargestSmallestAndOneAreThoseOfTheStandards) {
  // IEEE 754 binary16; bfloat16; OCP 8-bit floating point (2023), table 1.
  EXPECT_EQ(decode(DType::kF16, 0x7BFF), 65504);
  EXPECT_EQ(decode(DType::kF16, 0x0001), std::ldexp(1.0, -24));
  EXPECT_EQ(decode(DType::kF16, 0x3C00), 1);
  EXPECT_EQ(decode(DType::kBF16, 0x7F7F), std::ldexp(255.0, 120));
  EXPECT_EQ(decode(DType::kBF16, 0x0001), std::ldexp(1.0, -133));
  EXPECT_EQ(decode(DType::kBF16, 0x3F80), 1);
  EXPECT_EQ(decode(DType::kF8E4M3, 0x7E), 448);
  EXPECT_EQ(decode(DType::kF8E4M3, 0x01), std::ldexp(1.0, -9));
  EXPECT_EQ(decode(DType::kF8E4M3, 0x38), 1);
  EXPECT_TRUE(std::isnan(decode(DType::kF8E4M3, 0x7F)));
  EXPECT_TRUE(std::isnan(decode(DType::kF8E4M3, 0xFF)));
  EXPECT_EQ(decode(DType::kF8E5M2, 0x7B), 57344);
  EXPECT_EQ(decode(DType::kF8E5M2, 0x01), std::ldexp(1.0, -16));
  EXPECT_EQ(decode(DType::kF8E5M2, 0x3C), 1);
  EXPECT_EQ(decode(DType::kF8E5M2, 0x7C), kInfinity);
}

TEST(DTypeLimits, FormatsWithInfinityOverflowToItFromHalfAStepBeyondTheLargest) {
  struct Case {
    DType dtype;
    double largest;
    double half_step;
  };
  for (const auto& [dtype, largest, half_step] : {Case{DType::kF16, 65504, 16}, Case{DType::kF8E5M2, 57344, 4096},
                                                  Case{DType::kBF16, std::ldexp(255.0, 120), std::ldexp(1.0, 119)}}) {
    EXPECT_EQ(round_trip(dtype, std::nextafter(largest + half_step, 0)), largest) << name_of(dtype);
    EXPECT_EQ(round_trip(dtype, largest + half_step), kInfinity) << name_of(dtype);
    EXPECT_EQ(round_trip(dtype, -largest - half_step), -kInfinity) << name_of(dtype);
    EXPECT_EQ(round_trip(dtype, 1e300), kInfinity) << name_of(dtype);
    EXPECT_EQ(round_trip(dtype, kInfinity), kInfinity) << name_of(dtype);
    EXPECT_EQ(round_trip(dtype, -kInfinity), -kInfinity) << name_of(dtype);
  }
}

TEST(DTypeLimits, E4M3SaturatesBecauseItHasNoInfinity) {
  for (const double value : {449.0, 464.0, 480.0, 1e300, kInfinity}) {
    EXPECT_EQ(round_trip(DType::kF8E4M3, value), 448) << value;
    EXPECT_EQ(round_trip(DType::kF8E4M3, -value), -448) << value;
  }
}

TEST(DTypeLimits, IntegersRoundToEvenAndSaturate) {
  struct Case {
    DType dtype;
    double value;
    double stored;
  };
  const std::vector<Case> cases = {
      {DType::kI8, 2.5, 2},
      {DType::kI8, 3.5, 4},
      {DType::kI8, -2.5, -2},
      {DType::kI8, -0.4, 0},
      {DType::kI8, 127.4, 127},
      {DType::kI8, 1000, 127},
      {DType::kI8, -1000, -128},
      {DType::kI8, kInfinity, 127},
      {DType::kI8, kNaN, 0},
      {DType::kU8, -1, 0},
      {DType::kU8, 254.5, 254},
      {DType::kU8, 300, 255},
      {DType::kI32, 1e10, 2147483647.0},
      {DType::kI32, -1e10, -2147483648.0},
      {DType::kI32, -7.5, -8},
      {DType::kI64, 1e15, 1e15},
      {DType::kI64, -kInfinity, -0x1p63},
      {DType::kBool, 0, 0},
      {DType::kBool, -3, 1},
      {DType::kBool, 0.25, 1},
  };
  for (const auto& [dtype, value, stored] : cases)
    EXPECT_EQ(round_trip(dtype, value), stored) << name_of(dtype) << " " << value;
  std::int64_t integer = 0;
  store_from_double(&integer, DType::kI64, 1e19);
  EXPECT_EQ(integer, std::numeric_limits<std::int64_t>::max());
}

TEST(DTypeLimits, EightBitIntegersSurviveExhaustively) {
  for (std::uint64_t code = 0; code < 256; ++code) {
    EXPECT_EQ(encode(DType::kI8, decode(DType::kI8, code)), code);
    EXPECT_EQ(encode(DType::kU8, decode(DType::kU8, code)), code);
  }
  EXPECT_EQ(decode(DType::kI8, 0x80), -128);
  EXPECT_EQ(decode(DType::kU8, 0x80), 128);
}

TEST(DTypeLimits, WideFloatsAreIeee) {
  EXPECT_EQ(round_trip(DType::kF32, 0.1), static_cast<double>(0.1F));
  EXPECT_EQ(round_trip(DType::kF64, 0.1), 0.1);
  EXPECT_EQ(round_trip(DType::kF32, 1e300), kInfinity);
  EXPECT_TRUE(std::isnan(round_trip(DType::kF32, kNaN)));
}

TEST(BFloat16, FastConversionAgreesWithTheGeneralOne) {
  for (std::uint32_t code = 0; code < 0x10000; ++code) {
    const auto bits = static_cast<std::uint16_t>(code);
    const float value = bf16_to_float(bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(value)))) << code;
      continue;
    }
    EXPECT_EQ(static_cast<double>(value), decode(DType::kBF16, code));
    EXPECT_EQ(float_to_bf16(value), bits);
    // Every rounding case of the upper half: below, at and above the middle.
    for (const std::uint32_t low : {0x0001U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
      const auto between = std::bit_cast<float>((code << 16) | low);
      if (std::isnan(between)) continue;
      EXPECT_EQ(float_to_bf16(between), encode(DType::kBF16, between)) << code << " " << low;
    }
  }
  // A NaN whose set bits all lie in the half that is cut off must not become an infinity.
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(0x7F800001U)))));
}

TEST(DTypeNames, ParseWhatTheyPrintAndAreUnique) {
  std::set<std::string_view> names;
  std::set<std::string_view> safetensors_names;
  for (const DType dtype : kAllDTypes) {
    EXPECT_EQ(parse_dtype(name_of(dtype)), dtype);
    EXPECT_EQ(parse_safetensors_dtype(safetensors_name_of(dtype)), dtype);
    names.insert(name_of(dtype));
    safetensors_names.insert(safetensors_name_of(dtype));
  }
  EXPECT_EQ(names.size(), std::size(kAllDTypes));
  EXPECT_EQ(safetensors_names.size(), std::size(kAllDTypes));
  EXPECT_FALSE(parse_dtype("float32"));
  EXPECT_FALSE(parse_dtype("F32"));
  EXPECT_FALSE(parse_safetensors_dtype("f32"));
  EXPECT_EQ(fmt::format("{}", DType::kF8E4M3), "f8e4m3");
}

TEST(DTypeNames, SizesAndKinds) {
  EXPECT_EQ(size_of(DType::kF64), 8U);
  EXPECT_EQ(size_of(DType::kBF16), 2U);
  EXPECT_EQ(size_of(DType::kF8E5M2), 1U);
  EXPECT_EQ(size_of(DType::kI64), 8U);
  EXPECT_EQ(size_of(DType::kBool), 1U);
  EXPECT_TRUE(is_float(DType::kF8E4M3));
  EXPECT_FALSE(is_float(DType::kI8));
}

}  // namespace
}  // namespace headroom
