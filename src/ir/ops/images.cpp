#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "ir/ops/families.hpp"

// Images, NCHW; convolutions.cpp has their products.

namespace headroom::ops {
namespace {

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

constexpr std::array kImages = {
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
