#include <fmt/ranges.h>

#include "ir/activation.hpp"
#include "ir/convolution.hpp"
#include "kernels/conv/problem.hpp"
#include "kernels/core/library_kernel.hpp"

namespace headroom::convolutions {

Problem problem_of(const OpSpec& spec) {
  Problem problem{.is_transposed = spec.op == Op::kConvTranspose2d,
                  .dtype = spec.input(Role::kX).dtype,
                  .rounds_to_tf32 = rounds_to_tf32(spec),
                  .has_constant_weight = spec.has_weight_at(position_of(spec.op, Role::kWeight)),
                  .layout = spec.input(Role::kX).layout,
                  .x = spec.input(Role::kX).shape,
                  .weight = spec.input(Role::kWeight).shape,
                  .y = spec.outputs[0].shape,
                  .how = convolution_of(spec.attributes)};
  if (spec.has(Role::kBias)) problem.bias = spec.input(Role::kBias).dtype;
  if (spec.op == Op::kConv2dShortcut) {
    problem.shortcut = spec.input(Role::kOther).shape[1];
    problem.has_constant_weight &= spec.has_weight_at(position_of(spec.op, Role::kShortcut));
  }
  const EpilogueForm form = *form_of(spec.attributes[attr::kEpilogue]);
  problem.has_residual = form.adds_operand;
  problem.activation = form.activation;
  return problem;
}

std::string to_text(const Problem& problem) {
  return fmt::format(
      "{} {} x={} weight={} y={} stride={} padding={} dilation={} groups={}{} bias={}{} activation={}{}{}",
      problem.is_transposed ? "transposed" : "convolution", problem.dtype, problem.x, problem.weight, problem.y,
      problem.how.stride, problem.how.padding, problem.how.dilation, problem.how.groups,
      problem.layout == Layout::kChannelsLast ? " channels last" : "", problem.bias ? name_of(*problem.bias) : "none",
      problem.has_residual ? " residual" : "", static_cast<int>(problem.activation),
      problem.rounds_to_tf32 ? " tf32" : "", problem.shortcut > 0 ? fmt::format(" shortcut={}", problem.shortcut) : "");
}

Shape shortcut_shape(const Problem& problem) { return {problem.y[0], problem.shortcut, problem.y[2], problem.y[3]}; }

double flops_of(const Problem& problem) {
  const Shape& weight = problem.weight;
  const Shape& pixels = problem.is_transposed ? problem.x : problem.y;
  const std::int64_t multiply_adds = weight[1] * weight[2] * weight[3] + problem.shortcut;
  return 2 * static_cast<double>(pixels.numel()) * static_cast<double>(multiply_adds);
}

bool has_epilogue(const Problem& problem) {
  return problem.bias || problem.has_residual || problem.activation != Activation::kNone;
}

}  // namespace headroom::convolutions
