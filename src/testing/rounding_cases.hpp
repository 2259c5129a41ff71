#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "ir/builder.hpp"
#include "ir/test_cases/convolution_cases.hpp"
#include "ir/text/text.hpp"
#include "testing/compare.hpp"

/// Operands for which a 16-bit result that is also rounded in between differs from one that is rounded once.
namespace headroom {

struct RoundingCase {
  std::string name;
  OpSpec spec;
  std::vector<OracleTensor> operands;
  Tolerance tolerance = {.relative_l2 = 0, .rounds_once = true};
};

/// Results of `made` (bf16 or f16), with vectors of `side`, `made` or f32. Sums are `big` + 1 + 1, where big + 1 is
/// halfway between two numbers and rounds to big: everything before the last rounding is exact in f32.
class RoundingCases {
 public:
  RoundingCases(DType made, DType side)
      : made_(made), side_(side), epsilon_(made == DType::kBF16 ? 0x1p-7 : 0x1p-10), big_(2 / epsilon_) {}

  std::vector<RoundingCase> list() {
    add_matmuls();
    add_scaled_matmuls();
    add_convolutions();
    add_elementwise();
    add_sums();
    add_resize();
    add_norms();
    return std::move(cases_);
  }

 private:
  /// A tensor whose elements are a function of their index.
  template <class Value>
  static OracleTensor tensor(const TensorType& type, const Value& value) {
    OracleTensor made{.type = type, .reals = {}, .integers = {}};
    for (std::int64_t i = 0; i < type.shape.numel(); ++i) {
      if (is_float(type.dtype))
        made.reals.push_back(static_cast<double>(value(i)));
      else
        made.integers.push_back(static_cast<std::int64_t>(value(i)));
    }
    return made;
  }
  static OracleTensor all(const TensorType& type, double value) {
    return tensor(type, [=](std::int64_t) { return value; });
  }
  /// Rows [..., k] that begin with `first`, then zeros.
  static OracleTensor rows(const TensorType& type, const std::vector<double>& first) {
    const std::int64_t width = type.shape[-1];
    return tensor(type, [&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(i % width);
      return at < first.size() ? first[at] : 0.0;
    });
  }
  void add(std::string name, OpSpec spec, std::vector<OracleTensor> operands) {
    cases_.push_back({.name = fmt::format("{} to {} with {}", name, made_, side_),
                      .spec = std::move(spec),
                      .operands = std::move(operands)});
  }
  [[nodiscard]] TensorType made(const Shape& shape) const { return {made_, shape}; }

  void add_matmuls() {
    for (const std::int64_t rows_of_x : {1, 4, 40, 128}) {
      const TensorType x = made({rows_of_x, 64}), weight = made({32, 64}), bias{side_, {32}};
      for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kSilu,
                                          Activation::kGeluTanh, Activation::kGeluErf})  // of numbers so large nothing
        add(fmt::format("linear of {} rows, bias, {}", rows_of_x, name_of(activation)),
            make_spec(Op::kLinear, {x, weight, bias}, {{attr::kEpilogue, Epilogue(activation)}}, {false, true, true}),
            {rows(x, {big_, 1}), all(weight, 1), all(bias, 1)});
      const TensorType residual = made({rows_of_x, 32});
      add(fmt::format("linear of {} rows, residual", rows_of_x),
          make_spec(Op::kLinear, {x, weight, residual}, {{attr::kEpilogue, Epilogue().then(Op::kAdd)}},
                    {false, true, false}),
          {rows(x, {big_, 1}), all(weight, 1), all(residual, 1)});
    }
    const TensorType a = made({2, 9, 4096}), b = made({2, 16, 4096});
    std::vector<double> far(4000, 0.0);
    far.front() = big_, far[2000] = 1, far.back() = 1;
    add("matmul of 4096", make_spec(Op::kMatmul, {a, b}, {{attr::kTransposeB, true}}), {rows(a, far), all(b, 1)});
  }

  void add_scaled_matmuls() {
    for (const DType narrow : {DType::kF8E4M3, DType::kI8})
      for (const bool has_residual : {false, true}) {
        const TensorType x{narrow, {48, 64}}, x_scale{DType::kF32, {48}}, weight{narrow, {32, 64}},
            w_scale{DType::kF32, {32}}, bias{side_, {32}}, residual = made({48, 32});
        const double product = has_residual ? big_ : big_ + 1;
        const double scale = narrow == DType::kI8 ? 1 : big_ / 64;
        std::vector<double> parts;  // terms of the sum, the largest first
        for (double rest = product / scale; rest > 0; rest -= parts.back())
          parts.push_back(rest < 1 ? rest : std::min(std::floor(rest), narrow == DType::kI8 ? 127.0 : 64.0));
        std::vector<TensorType> inputs = {x, x_scale, weight, w_scale, bias};
        std::vector<OracleTensor> operands = {rows(x, parts), all(x_scale, scale), all(weight, 1), all(w_scale, 1),
                                              all(bias, 1)};
        if (has_residual) {
          inputs.push_back(residual);
          operands.push_back(all(residual, 1));
        }
        add(fmt::format("scaled_linear of {}{}", narrow, has_residual ? ", residual" : ", bias"),
            make_spec(Op::kScaledLinear, std::move(inputs),
                      {{attr::kEpilogue, has_residual ? Epilogue().then(Op::kAdd) : Epilogue()}, {attr::kDType, made_}},
                      {false, false, true, true, true, false}),
            std::move(operands));
      }
  }

  void add_convolutions() {
    for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast})
      for (const auto& [channels, taps] : std::vector<std::pair<std::int64_t, std::int64_t>>{{2, 1}, {64, 1}, {64, 3}})
        for (const bool has_residual : {false, true})
          for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kSilu}) {
            const ConvolutionCase c{
                {1, channels, 8, 8}, {64, channels, taps, taps}, Builder::evenly(1, (taps - 1) / 2)};
            const OpSpec spec =
                c.conv2d(made_, layout, {.bias = side_, .has_residual = has_residual, .activation = activation});
            std::vector<OracleTensor> operands = {channel_values(spec.inputs[0], has_residual ? 0 : 1),
                                                  centre_taps(spec.inputs[1]), all(spec.inputs[2], 1)};
            if (has_residual) operands.push_back(all(spec.inputs[3], 1));
            add(fmt::format("conv2d of {} channels, {} taps{}, {}{}", channels, taps, has_residual ? ", residual" : "",
                            name_of(activation), layout == Layout::kChannelsLast ? ", channels last" : ""),
                spec, std::move(operands));
          }
    for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast}) {
      const ConvolutionCase c{{1, 64, 8, 8}, {64, 64, 1, 1}};
      const OpSpec transposed = c.conv_transpose2d(made_, layout, side_);
      add("conv_transpose2d, bias", transposed,
          {channel_values(transposed.inputs[0], 1), all(transposed.inputs[1], 1), all(transposed.inputs[2], 1)});
    }
  }
  /// Channel 0 is big, channel 1 is `second`, others are 0; elements are in row-major order whatever the layout.
  [[nodiscard]] OracleTensor channel_values(const TensorType& x, double second) const {
    const std::int64_t pixels = x.shape[2] * x.shape[3];
    return tensor(x, [&](std::int64_t i) {
      const std::int64_t channel = i / pixels % x.shape[1];
      return channel == 0 ? big_ : channel == 1 ? second : 0.0;
    });
  }
  [[nodiscard]] static OracleTensor centre_taps(const TensorType& weight) {
    const std::int64_t taps = weight.shape[2] * weight.shape[3];
    return tensor(weight, [&](std::int64_t i) { return i % taps == taps / 2 ? 1.0 : 0.0; });
  }

  void add_elementwise() {
    const TensorType x = made({3, 5, 64}), gate{side_, {3, 1, 64}};
    const double half = epsilon_ / 2;
    // If rounded first, the scalar would be half a step, and the sum would round to 1.
    add("add_scalar", make_spec(Op::kAddScalar, {x}, {{attr::kValue, half + 0x1p-23}}), {all(x, 1)});
    add("mul_scalar", make_spec(Op::kMulScalar, {x}, {{attr::kValue, 1 + 0.45 * epsilon_}}), {all(x, 3)});
    add("gate_residual", make_spec(Op::kGateResidual, {x, gate, x}),
        {all(x, half), all(gate, 1 + epsilon_), all(x, 1 + epsilon_)});
    Graph body("body");
    Builder b(body);
    std::vector<ValueId> parts;
    for (const char* const name : {"a", "b", "c"}) parts.push_back(b.cast(body.add_input(name, x), DType::kF32));
    body.add_output("y", b.cast(b.add(b.add(parts[0], parts[1]), parts[2]), made_));
    add("fused sum", make_spec(Op::kFused, {x, x, x}, {{attr::kBody, canonical_text(body)}}),
        {all(x, big_), all(x, 1), all(x, 1)});
  }

  void add_sums() {
    const TensorType x = made({3, 8, 64});
    const OracleTensor sums = rows(x, {big_, 1, 1}), means = rows(x, {64 * big_, 64, 64});
    const std::vector<std::int64_t> axes = {2};
    add("sum", make_spec(Op::kSum, {x}, {{attr::kAxes, axes}}), {sums});
    if (made_ == DType::kBF16)  // beyond the range of f16
      add("mean", make_spec(Op::kMean, {x}, {{attr::kAxes, axes}}), {means});
    add("cumsum", make_spec(Op::kCumsum, {x}), {sums});
    const TensorType image = made({1, 8, 4, 4});
    add("avg_pool2d", make_spec(Op::kAvgPool2d, {image}, {{attr::kWindow, 2}}), {tensor(image, [&](std::int64_t i) {
          const std::int64_t row = i / 4 % 2, column = i % 2;
          return row == 0 && column == 0 ? 4 * big_ : row + column == 1 ? 4.0 : 0.0;
        })});
  }

  [[nodiscard]] double rounded(double value) const {
    std::array<std::byte, 8> bytes{};
    store_from_double(bytes.data(), made_, value);
    return load_as_double(bytes.data(), made_);
  }
  /// Images of 2 x 2 whose interpolation differs if the interpolation of the rows has been rounded.
  void add_resize() {
    std::vector<double> pixels;
    constexpr int kSteps = 8;
    for (int i = 0; i < kSteps * kSteps * kSteps * kSteps && pixels.size() < 4 * 16; ++i) {
      std::array<double, 4> corner{};
      for (int k = 0, rest = i; k < 4; ++k, rest /= kSteps)
        corner[static_cast<std::size_t>(k)] = 1 + rest % kSteps * epsilon_;
      const double above = 0.75 * corner[0] + 0.25 * corner[1], below = 0.75 * corner[2] + 0.25 * corner[3];
      const double once = rounded(0.75 * above + 0.25 * below);
      if (once == rounded(0.75 * rounded(above) + 0.25 * rounded(below))) continue;
      pixels.insert(pixels.end(), corner.begin(), corner.end());
    }
    const auto images = static_cast<std::int64_t>(pixels.size() / 4);
    const TensorType x = made({images, 1, 2, 2});
    add("resize2d",
        make_spec(Op::kResize2d, {x}, {{attr::kImageSize, Ints{4, 4}}, {attr::kMode, ResizeMode::kBilinear}}),
        {tensor(x, [&](std::int64_t i) { return pixels[static_cast<std::size_t>(i)]; })});
  }

  /// Values far from 0, where statistics in 16 bits, or a mean of squares in f32, lose the difference.
  void add_norms() {
    const double far = 4 * big_;
    for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast})
      for (const Shape& shape : {Shape{2, 8, 5, 3}, Shape{1, 64, 16, 16}}) {
        const TensorType x{made_, shape, layout};
        add("group_norm far from 0", make_spec(Op::kGroupNorm, {x}, {{attr::kGroups, 4}, {attr::kEps, 1e-5}}),
            {tensor(x, [&](std::int64_t i) { return far + 8 * static_cast<double>(i * 7 % 5); })});
        cases_.back().tolerance = default_tolerance(made_);
      }
    const TensorType x = made({5, 64});
    add("layer_norm far from 0", make_spec(Op::kLayerNorm, {x}, {{attr::kEps, 1e-5}}),
        {tensor(x, [&](std::int64_t i) { return far + 8 * static_cast<double>(i * 7 % 5); })});
    cases_.back().tolerance = default_tolerance(made_);
  }

  DType made_, side_;
  double epsilon_, big_;  ///< the step after 1; the least number whose half step is 1
  std::vector<RoundingCase> cases_;
};

}  // namespace headroom
