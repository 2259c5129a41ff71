#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "ir/ops/families.hpp"

// Images, NCHW.

namespace headroom::ops {
namespace {

std::vector<TensorType> conv2d_types(const TypeQuery& given) {
  const Shape& x = given.in[0].shape;
  const Shape& weight = given.in[1].shape;
  const std::int64_t stride = given.attributes.get_int("stride");
  const std::int64_t padding = given.attributes.get_int("padding");
  constexpr std::string_view kForm = "x[b, c, h, w], weight[o, c, kh, kw] and bias[o] of one floating-point dtype";
  given.require(
      is_float(given.in[0].dtype) && given.in[1].dtype == given.in[0].dtype && given.in[2].dtype == given.in[0].dtype,
      kForm);
  given.require(x.rank() == 4 && weight.rank() == 4 && weight[1] == x[1] && given.in[2].shape == Shape{weight[0]},
                kForm);
  if (stride < 1 || padding < 0) {
    fail("conv2d: expected a positive stride and no negative padding, but was given {} and {}", stride, padding);
  }
  const std::int64_t height = x[2] + 2 * padding - weight[2];
  const std::int64_t width = x[3] + 2 * padding - weight[3];
  given.require(height >= 0 && width >= 0, "a weight no larger than the padded image");
  return {{given.in[0].dtype, Shape{x[0], weight[0], height / stride + 1, width / stride + 1}, given.in[0].layout}};
}

std::vector<TensorType> max_pool2d_types(const TypeQuery& given) {
  const Shape& x = given.in[0].shape;
  const std::int64_t window = given.attributes.get_int("window");
  given.require(is_float(given.in[0].dtype) && x.rank() == 4, "x[b, c, h, w] of a floating-point dtype");
  if (window < 1 || window > x[2] || window > x[3]) {
    fail("max_pool2d: the window must be in 1..{} for {}, but was given {}", std::min(x[2], x[3]), given.in[0], window);
  }
  return {{given.in[0].dtype, Shape{x[0], x[1], x[2] / window, x[3] / window}, given.in[0].layout}};
}

std::vector<TensorType> mean_types(const TypeQuery& given) {
  const int axis = axis_of(given);
  given.require(is_float(given.in[0].dtype), "a floating-point dtype");
  return {{given.in[0].dtype, Shape(given.in[0].shape.dims().first(static_cast<std::size_t>(axis)))}};
}

void conv2d(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  const Shape& x = in[0]->type.shape;       // [b, c, h, w]
  const Shape& weight = in[1]->type.shape;  // [o, c, kh, kw]
  const Shape& result = out[0].type.shape;  // [b, o, oh, ow]
  const std::int64_t stride = attributes.get_int("stride");
  const std::int64_t padding = attributes.get_int("padding");
  const auto pixel = [&](std::int64_t b, std::int64_t c, std::int64_t row, std::int64_t column) {
    if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) return 0.0;
    return in[0]->reals[static_cast<std::size_t>(((b * x[1] + c) * x[2] + row) * x[3] + column)];
  };
  std::size_t at = 0;
  for (std::int64_t b = 0; b < result[0]; ++b) {
    for (std::int64_t o = 0; o < result[1]; ++o) {
      for (std::int64_t row = 0; row < result[2]; ++row) {
        for (std::int64_t column = 0; column < result[3]; ++column, ++at) {
          double sum = in[2]->reals[static_cast<std::size_t>(o)];
          const double* filter = in[1]->reals.data() + o * weight[1] * weight[2] * weight[3];
          for (std::int64_t c = 0; c < weight[1]; ++c) {
            for (std::int64_t i = 0; i < weight[2]; ++i) {
              for (std::int64_t j = 0; j < weight[3]; ++j, ++filter) {
                sum += *filter * pixel(b, c, row * stride + i - padding, column * stride + j - padding);
              }
            }
          }
          out[0].reals[at] = sum;
        }
      }
    }
  }
}

void max_pool2d(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  const OracleTensor& x = *in[0];
  const auto window = static_cast<std::size_t>(attributes.get_int("window"));
  const std::size_t height = extent(out[0], 2);
  const std::size_t width = extent(out[0], 3);
  const std::size_t x_width = extent(x, 3);
  for (std::size_t i = 0; i < out[0].reals.size(); ++i) {
    const std::size_t image = i / (height * width);
    const std::size_t top = i / width % height * window;
    const std::size_t left = i % width * window;
    const double* corner = x.reals.data() + (image * extent(x, 2) + top) * x_width + left;
    double largest = *corner;
    for (std::size_t row = 0; row < window; ++row) {
      for (std::size_t column = 0; column < window; ++column) {
        const double value = corner[row * x_width + column];
        if (value > largest || std::isnan(value)) largest = value;  // a NaN wins, as in PyTorch
      }
    }
    out[0].reals[i] = largest;
  }
}

void mean(const Attributes& /*attributes*/, Operands in, std::span<OracleTensor> out) {
  const OracleTensor& x = *in[0];
  const std::size_t count = x.reals.size() / out[0].reals.size();
  for (std::size_t i = 0; i < out[0].reals.size(); ++i)
    out[0].reals[i] = mean_of(std::span(x.reals).subspan(i * count, count));
}

double conv2d_flops(const Attributes& /*attributes*/, Types in, Types out) {
  const Shape& weight = in[1].shape;  // [o, c, kh, kw]
  return static_cast<double>(out[0].shape.numel()) * (2 * static_cast<double>(weight[1] * weight[2] * weight[3]) + 1);
}

constexpr std::array kImages = {
    OpDefinition{.op = Op::kConv2d,
                 .kind = OpKind::kProduct,
                 .infer = conv2d_types,
                 .evaluate = conv2d,
                 .flops = conv2d_flops,
                 .samples = Samples::kFirst,
                 .stays_f32 = true},
    OpDefinition{.op = Op::kMaxPool2d,
                 .infer = max_pool2d_types,
                 .evaluate = max_pool2d,
                 .flops = for_each_input<1>,
                 .samples = Samples::kFirst,
                 .stays_f32 = true},
    OpDefinition{.op = Op::kMean,
                 .infer = mean_types,
                 .evaluate = mean,
                 .flops = for_each_input<1>,
                 .samples = Samples::kFirst,
                 .keeps_samples = is_along_inner_axis,
                 .stays_f32 = true},
};

}  // namespace

std::span<const OpDefinition> images() { return kImages; }

}  // namespace headroom::ops
