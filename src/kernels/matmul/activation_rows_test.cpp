#include "kernels/matmul/activation_rows.hpp"

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "testing/highway_check.hpp"

namespace headroom {
namespace {

constexpr Activation kRowActivations[] = {Activation::kNone, Activation::kGeluTanh, Activation::kGeluErf,
                                          Activation::kSilu, Activation::kRelu};

double reference(Activation activation, double v) {
  switch (activation) {
    case Activation::kGeluTanh:
      return v / (1 + std::exp(-2 * std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v)));
    case Activation::kGeluErf:
      return 0.5 * v * std::erfc(-v / std::numbers::sqrt2);
    case Activation::kSilu:
      return v / (1 + std::exp(-v));
    case Activation::kRelu:
      return v < 0 ? 0 : v;
    case Activation::kNone:
      break;
  }
  return v;
}

/// finish_rows() to bf16, y as doubles: [rows, stride].
std::vector<double> finish(const RowFinish& form, std::int64_t rows, const std::vector<float>& x, const void* bias) {
  std::vector<std::uint16_t> y(static_cast<std::size_t>(rows * form.y_stride), 0x4000);
  finish_rows(form, rows, x.data(), bias, y.data());
  std::vector<double> result;
  for (const std::uint16_t& bits : y) result.push_back(load_as_double(&bits, DType::kBF16));
  return result;
}

std::vector<double> finish_row(Activation activation, const std::vector<float>& x) {
  const auto n = static_cast<std::int64_t>(x.size());
  return finish({.activation = activation, .bias = {}, .y_dtype = DType::kBF16, .columns = n, .y_stride = n}, 1, x,
                nullptr);
}

/// Half a unit in the last place of a bf16, and 2^-12 of the argument.
double allowed(double x, double expected) { return 0x1.01p-8 * std::fabs(expected) + 0x1p-12 * std::fabs(x); }

TEST(FinishRows, ErrsInBf16ByOneRoundingAndLittleOfTheArgument) {
  std::vector<float> x{0.0F, -0.0F};
  for (float magnitude = 1e-30F; magnitude < 1e30F; magnitude *= 1.07F) x.insert(x.end(), {magnitude, -magnitude});
  for (float value = -20.0F; value < 20.0F; value += 0.0009F) x.push_back(value);
  for_each_highway_target([&] {
    for (const Activation activation : kRowActivations) {
      const std::vector<double> y = finish_row(activation, x);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const auto from = static_cast<double>(x[i]);
        const double expected = reference(activation, from);
        ASSERT_NEAR(y[i], expected, allowed(from, expected))
            << "activation " << static_cast<int>(activation) << " of " << from;
      }
    }
  });
}

TEST(FinishRows, KeepsNanAndInfinity) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> x;
  for (int i = 0; i < 12; ++i) x.insert(x.end(), {kNan, -kNan, kInfinity, -kInfinity});  // 3 vectors at the most
  for_each_highway_target([&] {
    for (const Activation activation : kRowActivations) {
      const std::vector<double> y = finish_row(activation, x);
      for (std::size_t i = 0; i < x.size(); i += 4) {
        EXPECT_TRUE(std::isnan(y[i]) && std::isnan(y[i + 1])) << static_cast<int>(activation);
        EXPECT_EQ(y[i + 2], INFINITY) << static_cast<int>(activation);
        const double expected = reference(activation, -INFINITY);  // NaN of silu and gelu
        EXPECT_TRUE(std::isnan(expected) ? std::isnan(y[i + 3]) : y[i + 3] == expected)
            << static_cast<int>(activation) << ": " << y[i + 3];
      }
    }
  });
}

TEST(FinishRows, AddsTheBiasInEachRowAndLeavesWhatLiesBetweenThem) {
  constexpr std::int64_t kRows = 3, kColumns = 43, kStride = 50;  // vectors of each length, and a rest
  std::vector<float> x, bias;
  std::vector<std::uint16_t> bf16_bias(kColumns);
  for (std::int64_t i = 0; i < kRows * kColumns; ++i) x.push_back(std::sin(static_cast<float>(i)) * 4);
  for (std::size_t i = 0; i < kColumns; ++i) {
    store_from_double(&bf16_bias[i], DType::kBF16, std::cos(static_cast<double>(i)));
    bias.push_back(static_cast<float>(load_as_double(&bf16_bias[i], DType::kBF16)));
  }
  for_each_highway_target([&] {
    for (const Activation activation : kRowActivations)
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        const void* const from = dtype == DType::kF32 ? static_cast<const void*>(bias.data()) : bf16_bias.data();
        const std::vector<double> y = finish({.activation = activation,
                                              .bias = dtype,
                                              .y_dtype = DType::kBF16,
                                              .columns = kColumns,
                                              .y_stride = kStride},
                                             kRows, x, from);
        for (std::int64_t i = 0; i < kRows * kStride; ++i) {
          const std::int64_t row = i / kStride, column = i % kStride;
          double expected = 2, sum = 0;  // 2 is the value of the bits that y is filled with
          if (column < kColumns) {
            sum = static_cast<double>(x[static_cast<std::size_t>(row * kColumns + column)] +
                                      bias[static_cast<std::size_t>(column)]);
            expected = reference(activation, sum);
          }
          ASSERT_NEAR(y[static_cast<std::size_t>(i)], expected, column < kColumns ? allowed(sum, expected) : 0)
              << "activation " << static_cast<int>(activation) << ", row " << row << ", column " << column;
        }
      }
  });
}

}  // namespace
}  // namespace headroom
