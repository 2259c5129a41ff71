#pragma once

#include <fmt/ranges.h>

#include <optional>
#include <string>
#include <vector>

#include "ir/builder.hpp"
#include "ir/infer.hpp"

/// Convolutions: for the table of cases, and for the tests of single kernels.
namespace headroom {

/// The epilogue of a convolution.
struct ConvolutionEnd {
  std::optional<DType> bias = std::nullopt;
  bool has_residual = false;
  Activation activation = Activation::kNone;
  bool allows_tf32 = false;

  [[nodiscard]] Epilogue epilogue() const {
    const Epilogue sum = has_residual ? Epilogue().then(Op::kAdd) : Epilogue();
    return activation == Activation::kNone ? sum : sum.then(op_of(activation));
  }
  [[nodiscard]] std::string text() const {
    return fmt::format("bias {}{} {}", bias ? name_of(*bias) : "none", has_residual ? " residual" : "",
                       name_of(activation));
  }
};

struct ConvolutionCase {
  Shape x;       ///< [b, c, h, w]
  Shape weight;  ///< [o, c/groups, kh, kw], transposed [c, o/groups, kh, kw]
  Builder::Convolution how = {};
  std::vector<std::int64_t> output_padding = {0, 0};

  [[nodiscard]] std::string text(DType dtype, Layout layout) const {
    return fmt::format("{} x{} weight{} stride [{}] padding [{}] dilation [{}] groups {}{}", dtype, x, weight,
                       fmt::join(how.stride, ","), fmt::join(how.padding, ","), fmt::join(how.dilation, ","),
                       how.groups, layout == Layout::kChannelsLast ? " channels last" : "");
  }
  [[nodiscard]] NamedAttributes attributes() const {
    const auto list = [](const auto& values) { return std::vector<std::int64_t>(values.begin(), values.end()); };
    return {{attr::kStride, list(how.stride)},
            {attr::kPadding, list(how.padding)},
            {attr::kDilation, list(how.dilation)},
            {attr::kGroups, how.groups}};
  }
  [[nodiscard]] OpSpec conv2d(DType dtype, Layout layout, const ConvolutionEnd& end, bool is_weight = true) const {
    std::vector<TensorType> operands = {{dtype, x, layout}, {dtype, weight}};
    std::vector<bool> is_weights = {false, is_weight};
    auto given = attributes();
    if (end.bias) {
      operands.push_back({*end.bias, Shape{weight[0]}});
      is_weights.push_back(is_weight);
    }
    if (end.has_residual) operands.push_back(make_spec(Op::kConv2d, operands, given).outputs[0]);
    given.emplace_back(attr::kEpilogue, end.epilogue());
    given.emplace_back(attr::kTf32, end.allows_tf32);
    return make_spec(Op::kConv2d, std::move(operands), std::move(given), std::move(is_weights));
  }
  /// With a second image of `channels` channels, and a bias in f32.
  [[nodiscard]] OpSpec conv2d_shortcut(DType dtype, Layout layout, std::int64_t channels, Activation activation,
                                       bool is_weight = true) const {
    std::vector<TensorType> operands = {{dtype, x, layout}, {dtype, weight}, {DType::kF32, Shape{weight[0]}}};
    auto given = attributes();
    TensorType other = make_spec(Op::kConv2d, operands, given).outputs[0];
    other.shape.set(1, channels);
    operands.insert(operands.end(), {other, {dtype, {weight[0], channels, 1, 1}}});
    given.emplace_back(attr::kEpilogue, Epilogue(activation));
    return make_spec(Op::kConv2dShortcut, std::move(operands), std::move(given),
                     {false, is_weight, is_weight, false, is_weight});
  }
  [[nodiscard]] OpSpec conv_transpose2d(DType dtype, Layout layout, std::optional<DType> bias,
                                        bool is_weight = true) const {
    std::vector<TensorType> operands = {{dtype, x, layout}, {dtype, weight}};
    if (bias) operands.push_back({*bias, Shape{weight[1] * how.groups}});
    auto given = attributes();
    given.emplace_back("output_padding", output_padding);
    return make_spec(Op::kConvTranspose2d, std::move(operands), std::move(given), {false, is_weight, is_weight});
  }
};

/// Odd extents, strides, padding on one side, dilation, groups and depthwise, single pixels and whole blocks.
inline std::vector<ConvolutionCase> convolution_cases() {
  return {{{1, 1, 1, 1}, {1, 1, 1, 1}},
          {{2, 1, 28, 28}, {8, 1, 3, 3}, Builder::evenly(1, 1)},
          {{2, 8, 14, 14}, {16, 8, 3, 3}, Builder::evenly(1, 1)},
          {{3, 5, 9, 7}, {7, 5, 3, 2}, Builder::evenly(2, 1)},
          {{1, 3, 20, 17}, {17, 3, 7, 7}, Builder::evenly(2, 3)},
          {{2, 33, 6, 5}, {19, 33, 1, 1}},
          {{2, 64, 6, 6}, {128, 64, 1, 1}},
          {{1, 64, 12, 12}, {48, 64, 3, 3}, Builder::evenly(1, 1)},
          {{2, 4, 8, 8}, {24, 4, 2, 2}, Builder::evenly(2, 0)},
          {{1, 2, 3, 3}, {1, 2, 3, 3}, Builder::evenly(2, 0)},
          {{2, 8, 9, 9}, {8, 8, 3, 3}, {.stride = {2, 2}, .padding = {0, 0, 1, 1}}},
          {{1, 16, 7, 10}, {8, 16, 3, 3}, {.stride = {1, 3}, .padding = {2, 0, 1, 3}}},
          {{2, 6, 9, 8}, {4, 3, 3, 2}, {.padding = {1, 1, 0, 2}, .dilation = {2, 3}, .groups = 2}},
          {{1, 32, 8, 8}, {64, 16, 3, 3}, {.padding = {1, 1, 1, 1}, .groups = 2}},
          {{2, 6, 6, 6}, {2, 3, 1, 1}, {.stride = {2, 2}, .groups = 2}},
          {{2, 5, 9, 9}, {5, 1, 3, 3}, {.padding = {1, 1, 1, 1}, .groups = 5}},
          {{1, 32, 9, 9}, {32, 1, 5, 5}, {.stride = {2, 1}, .padding = {2, 2, 2, 2}, .groups = 32}},
          {{1, 16, 12, 12}, {16, 16, 3, 3}, {.padding = {4, 4, 4, 4}, .dilation = {4, 4}}}};
}

inline std::vector<ConvolutionCase> transposed_cases() {
  return {{{1, 1, 1, 1}, {1, 1, 1, 1}},
          {{2, 3, 5, 4}, {3, 5, 2, 2}, {.stride = {2, 2}}},
          {{2, 16, 7, 7}, {16, 8, 4, 4}, Builder::evenly(2, 1)},
          {{1, 5, 6, 5}, {5, 3, 3, 2}, {.stride = {2, 3}, .padding = {1, 0, 2, 1}}, {1, 2}},
          {{2, 8, 5, 5}, {8, 4, 3, 3}, {.stride = {2, 2}, .padding = {1, 1, 1, 1}}, {1, 1}},
          {{1, 6, 4, 5}, {6, 2, 3, 3}, {.padding = {1, 1, 1, 0}, .dilation = {2, 1}, .groups = 2}},
          {{2, 4, 5, 5}, {4, 1, 3, 3}, {.stride = {2, 2}, .padding = {1, 1, 1, 1}, .groups = 4}},
          {{1, 32, 6, 6}, {32, 16, 4, 4}, Builder::evenly(2, 1)}};
}

/// Every activation, with and without the other terms of the epilogue.
inline std::vector<ConvolutionEnd> convolution_ends(DType dtype) {
  std::vector<ConvolutionEnd> ends = {{},
                                      {.bias = DType::kF32},
                                      {.activation = Activation::kSilu},
                                      {.has_residual = true},
                                      {.bias = dtype, .has_residual = true},
                                      {.bias = dtype, .has_residual = true, .activation = Activation::kSilu}};
  for (const Activation activation :
       {Activation::kSilu, Activation::kGeluTanh, Activation::kGeluErf, Activation::kRelu})
    ends.push_back({.bias = dtype, .activation = activation});
  return ends;
}

}  // namespace headroom
