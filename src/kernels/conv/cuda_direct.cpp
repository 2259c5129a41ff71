#include <fmt/format.h>

#include <algorithm>

#include "kernels/conv/direct.hpp"
#include "kernels/conv/direct_form.hpp"

namespace headroom::convolutions {
namespace {

using Pair = std::array<std::int64_t, 2>;

/// The pace of a 3x3 or transposed 4x4 convolution with padding 1; nothing for any other.
std::optional<Pace> pace_of(const Problem& problem) {
  const Builder::Convolution& how = problem.how;
  const std::int64_t taps = problem.is_transposed ? 4 : 3;
  if (problem.weight[2] != taps || problem.weight[3] != taps || how.groups != 1 || how.dilation != Pair{1, 1} ||
      std::ranges::count(how.padding, 1) != 4)
    return std::nullopt;
  if (problem.is_transposed) {
    const bool doubles = problem.y[2] == 2 * problem.x[2] && problem.y[3] == 2 * problem.x[3];
    return doubles && how.stride == Pair{2, 2} ? std::optional(Pace::kDoubled) : std::nullopt;
  }
  if (how.stride == Pair{1, 1}) return Pace::kSame;
  return how.stride == Pair{2, 2} ? std::optional(Pace::kHalved) : std::nullopt;
}

NarrowForm form_of(const Problem& problem) {
  return {.pace = *pace_of(problem),
          .channels = static_cast<int>(problem.x[1]),
          .outputs = static_cast<int>(problem.y[1]),
          .images = static_cast<int>(problem.x[0]),
          .height = static_cast<int>(problem.x[2]),
          .width = static_cast<int>(problem.x[3]),
          .dtype = problem.dtype,
          .bias = problem.bias.value_or(problem.dtype),
          .activation = problem.activation,
          .has_constant_weight = problem.has_constant_weight};
}

NarrowOperands operands_of(const Operands& operands) {
  return {operands.x, operands.weight, operands.bias, operands.residual, operands.y};
}

/// Whether a kernel takes `read` channels of x and `made` of y, if the pace is the same and there is no residual.
bool is_few(std::int64_t read, std::int64_t made) {
  if (made <= kMostFewOutputs) return read == kNarrowChannels || (read % kManyStep == 0 && read <= kMostManyChannels);
  return read <= kMostSeveralChannels && made % kNarrowChannels == 0;
}

/// For those that is_few() says.
Algorithm few_algorithm(const NarrowForm& form, int multiprocessors) {
  const auto algorithm = [&](const char* name, auto launch) {
    return Algorithm{.name = name, .run = [=](void* stream, const Operands& operands, void* /*workspace*/) {
                       launch(stream, form, multiprocessors, operands_of(operands));
                     }};
  };
  if (form.outputs <= kMostFewOutputs && form.channels != kNarrowChannels)
    return algorithm("narrow, many to few channels", launch_many_to_few);
  if (form.outputs > kMostFewOutputs && form.channels > kMostFewChannels)
    return algorithm("narrow, several channels", launch_several);
  return algorithm("narrow, few channels", launch_few);
}

Packing packing_of(Pace pace) {
  return {
      .layout = pace == Pace::kDoubled ? "registers, doubled" : "registers",
      .bytes = packed_narrow_bytes(pace),
      .pack = [pace](void* stream, const void* weight, void* packed) { pack_narrow(stream, pace, weight, packed); }};
}

}  // namespace

Support why_not_narrow(const Problem& problem, const Target& target) {
  if (target.compute_capability != 90) return Rejection{"is for GPUs of compute capability 9.0"};
  if (problem.dtype != DType::kBF16 && problem.dtype != DType::kF16) return Rejection{"takes bf16 or f16"};
  if (problem.layout != Layout::kChannelsLast) return Rejection{"takes channels-last images"};
  if (problem.shortcut > 0) return Rejection{"takes no shortcut"};
  const std::optional<Pace> pace = pace_of(problem);
  if (!pace)
    return Rejection{"takes 3x3 with padding 1 and stride 1 or 2, or the transposed 4x4 that doubles an image"};
  const std::int64_t read = problem.x[1], made = problem.y[1];
  const bool takes_few = *pace == Pace::kSame && !problem.has_residual && is_few(read, made);
  if (!takes_few && (read != kNarrowChannels || made != kNarrowChannels))
    return Rejection{
        "takes 64 channels to 64, or with stride 1 and no residual from at most 16 to a multiple of 64 or from a "
        "multiple of 32 up to 2048 to at most 16"};
  if (*pace == Pace::kHalved && problem.x[3] % 2 != 0) return Rejection{"halves even widths"};
  if (problem.activation != Activation::kNone && problem.activation != Activation::kRelu &&
      problem.activation != Activation::kSilu)
    return Rejection{"activates with relu or silu"};
  if (problem.x.numel() > INT32_MAX || problem.y.numel() > INT32_MAX)
    return Rejection{"takes images of up to 2^31 elements"};
  return std::nullopt;
}

std::vector<Algorithm> make_direct_algorithms(const Problem& problem, const Target& target) {
  const NarrowForm form = form_of(problem);
  const int multiprocessors = target.multiprocessors;
  if (form.channels != form.outputs) return {few_algorithm(form, multiprocessors)};
  std::vector<Algorithm> algorithms;
  for (const int pixels : narrow_widths(form, multiprocessors))
    algorithms.push_back({.name = fmt::format("narrow {} pixels", pixels),
                          .packing = packing_of(form.pace),
                          .run = [=](void* stream, const Operands& operands, void* /*workspace*/) {
                            launch_narrow(stream, form, pixels, multiprocessors, operands_of(operands));
                          }});
  return algorithms;
}

}  // namespace headroom::convolutions
