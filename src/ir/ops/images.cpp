#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "ir/ops/families.hpp"

// Images, NCHW; convolutions.cpp has their products.

namespace headroom::ops {
namespace {

std::vector<TensorType> mean_types(const TypeQuery& given) {
  const int axis = axis_of(given);
  given.require(is_float(given.in[0].dtype), "a floating-point dtype");
  return {{given.in[0].dtype, Shape(given.in[0].shape.dims().first(static_cast<std::size_t>(axis)))}};
}

void mean(const Attributes& /*attributes*/, Operands in, std::span<OracleTensor> out) {
  const OracleTensor& x = *in[0];
  const std::size_t count = x.reals.size() / out[0].reals.size();
  for (std::size_t i = 0; i < out[0].reals.size(); ++i)
    out[0].reals[i] = mean_of(std::span(x.reals).subspan(i * count, count));
}

constexpr std::array kImages = {
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
