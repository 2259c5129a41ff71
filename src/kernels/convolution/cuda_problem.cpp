#include <fmt/ranges.h>

#include "ir/activation.hpp"
#include "ir/convolution.hpp"
#include "kernels/convolution/problem.hpp"
#include "kernels/library_kernel.hpp"

namespace headroom::convolutions {

Problem problem_of(const OpSpec& spec) {
  Problem problem{.is_transposed = spec.op == Op::kConvTranspose2d,
                  .dtype = spec.inputs[0].dtype,
                  .has_residual = spec.inputs.size() > 3,
                  .rounds_to_tf32 = rounds_to_tf32(spec),
                  .has_constant_weight = spec.has_weight_at(1),
                  .layout = spec.inputs[0].layout,
                  .x = spec.inputs[0].shape,
                  .weight = spec.inputs[1].shape,
                  .y = spec.outputs[0].shape,
                  .how = convolution_of(spec.attributes)};
  if (spec.inputs.size() > 2) problem.bias = spec.inputs[2].dtype;
  if (!problem.is_transposed) problem.activation = activation_of(spec.attributes);
  return problem;
}

std::string to_text(const Problem& problem) {
  return fmt::format("{} {} x={} weight={} y={} stride={} padding={} dilation={} groups={}{} bias={}{} activation={}{}",
                     problem.is_transposed ? "transposed" : "convolution", problem.dtype, problem.x, problem.weight,
                     problem.y, problem.how.stride, problem.how.padding, problem.how.dilation, problem.how.groups,
                     problem.layout == Layout::kChannelsLast ? " channels last" : "",
                     problem.bias ? name_of(*problem.bias) : "none", problem.has_residual ? " residual" : "",
                     static_cast<int>(problem.activation), problem.rounds_to_tf32 ? " tf32" : "");
}

double flops_of(const Problem& problem) {
  const Shape& weight = problem.weight;
  const Shape& pixels = problem.is_transposed ? problem.x : problem.y;
  return 2 * static_cast<double>(pixels.numel()) * static_cast<double>(weight[1] * weight[2] * weight[3]);
}

bool has_epilogue(const Problem& problem) {
  return problem.bias || problem.has_residual || problem.activation != Activation::kNone;
}

}  // namespace headroom::convolutions
