// Group norms of channels-last images in one launch: alone (cuda.group_norm_once), or with a concatenation and
// per-channel vectors around them (cuda.fused_group_norm). group_norm_fused_cuda.cu explains how.

#include "kernels/norm/group_norm_fused_cuda.hpp"

#include <array>
#include <utility>
#include <variant>

#include "ir/expand.hpp"
#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/core/support.hpp"
#include "lower/group_norm_program.hpp"

namespace headroom {
namespace {

using cuda::CudaKernel;
using cuda::GroupNormOnce;

/// The program of a group_norm by itself.
GroupNormProgram program_of_norm(const OpSpec& spec) {
  const auto at = [&](Role role) { return spec.has(role) ? static_cast<int>(position_of(spec.op, role)) : -1; };
  return {.parts = {0},
          .weight = at(Role::kWeight),
          .bias = at(Role::kBias),
          .groups = spec.attributes[attr::kGroups],
          .eps = spec.attributes[attr::kEps],
          .activation = only_activation_of(spec)};
}

GroupNormProgram program_of_body(const OpSpec& spec) {
  return std::get<GroupNormProgram>(group_norm_program_of(body_of(spec.attributes)));
}

GroupNormOnce share_norm(const GroupNormProgram& program, const OpSpec& spec, int compute_capability) {
  const TensorType& y = spec.outputs[0];
  GroupNormOnce norm;
  norm.dtype = y.dtype;
  norm.activation = program.activation;
  norm.images = y.shape[0];
  norm.pixels = static_cast<int>(y.shape[2] * y.shape[3]);
  norm.channels = static_cast<int>(y.shape[1]);
  norm.first_channels = static_cast<int>(spec.inputs[static_cast<std::size_t>(program.parts[0])].shape[1]);
  norm.width = static_cast<int>(y.shape[1] / program.groups);
  norm.eps = static_cast<float>(program.eps);
  norm.more = static_cast<float>(program.more);
  return shared_among_blocks(norm, compute_capability);
}

/// The index of the input for each per-channel vector; -1 if there is none.
std::array<int, cuda::kChannelNumbers> inputs_of_numbers(const GroupNormProgram& program) {
  std::array<int, cuda::kChannelNumbers> inputs{};
  inputs[cuda::kShift] = program.shift;
  inputs[cuda::kWeight] = program.weight;
  inputs[cuda::kBias] = program.bias;
  inputs[cuda::kScale] = program.scale;
  inputs[cuda::kOffset] = program.offset;
  return inputs;
}

/// The strides of per-channel numbers of shape [c] or [b or 1, c, 1, 1].
cuda::ChannelNumber number_of(const Operand& operand) {
  if (operand.type.shape.rank() == 1) return {.dtype = operand.type.dtype, .channel = operand.strides[0]};
  return {.dtype = operand.type.dtype,
          .image = operand.type.shape[0] == 1 ? 0 : operand.strides[0],
          .channel = operand.strides[1]};
}

KernelPlan plan_once(const KernelBinding& binding, const GroupNormProgram& program) {
  if (binding.spec.outputs[0].shape.numel() == 0) return {[](const LaunchArguments&) {}};
  GroupNormOnce norm = share_norm(program, binding.spec, binding.target.compute_capability);
  const std::array<int, cuda::kChannelNumbers> numbers = inputs_of_numbers(program);
  norm.numbers[cuda::kWeight].otherwise = 1;
  norm.numbers[cuda::kScale].otherwise = 1 - norm.more;
  for (std::size_t kind = 0; kind < numbers.size(); ++kind)
    if (numbers[kind] >= 0) norm.numbers[kind] = number_of(binding.inputs[static_cast<std::size_t>(numbers[kind])]);
  const auto launch = [=](const LaunchArguments& arguments) {
    const auto input = [&](int number) {
      return number < 0 ? nullptr : arguments.input(static_cast<std::size_t>(number));
    };
    cuda::GroupNormOperands operands;
    operands.first = input(program.parts.front());
    if (program.parts.size() > 1) operands.second = input(program.parts[1]);
    if (program.makes_whole) operands.whole = arguments.output(1);
    operands.y = arguments.output(0);
    for (std::size_t kind = 0; kind < numbers.size(); ++kind) operands.numbers[kind] = input(numbers[kind]);
    cuda::launch_group_norm_once(arguments.stream.native_handle(), norm, operands);
  };
  const int cluster = 1 << norm.log2_cluster;
  return {.launch = launch,
          .implementation = fmt::format("{} block{} a bundle{}", cluster, cluster == 1 ? "" : "s",
                                        norm.tiles == 1 ? "" : ", read twice")};
}

KernelPlan plan_norm_once(const KernelBinding& binding) { return plan_once(binding, program_of_norm(binding.spec)); }
KernelPlan plan_body_once(const KernelBinding& binding) { return plan_once(binding, program_of_body(binding.spec)); }

/// The limits of the kernel for images of that type.
Support check_images(const TensorType& y, std::int64_t groups) {
  constexpr std::int64_t kMostPixels = std::int64_t{1} << 28;  // of one image; they are counted in an int
  if (y.shape[2] * y.shape[3] > kMostPixels) return Rejection{"takes images of fewer pixels"};
  if (y.shape[0] > cuda::kMostNormedImages) return Rejection{"takes fewer images"};
  if (pairs_of_run(y.shape[1] / groups, size_of(y.dtype)) > cuda::kMostNormThreads)
    return Rejection{"takes smaller groups: a thread of a block takes one pair of channels"};
  return std::nullopt;
}

Support supports_norm_body(const OpSpec& spec) {
  auto program = group_norm_program_of(body_of(spec.attributes));
  if (auto* reason = std::get_if<std::string>(&program)) return Rejection{std::move(*reason)};
  if (Support rejection = check_images(spec.outputs[0], std::get<GroupNormProgram>(program).groups)) return rejection;
  for (const int part : std::get<GroupNormProgram>(program).parts)
    if (spec.inputs[static_cast<std::size_t>(part)].layout != Layout::kChannelsLast)
      return Rejection{"takes channels-last images"};
  return std::nullopt;
}

class GroupNormOnceKernel : public CudaKernel {
 public:
  using CudaKernel::CudaKernel;

  [[nodiscard]] Support supports(const OpSpec& spec, const Target& target) const override {
    if (Support support = CudaKernel::supports(spec, target)) return support;
    if (Support rejection = check_epilogue(spec, EpilogueForms::kActivation)) return rejection;
    const TensorType& y = spec.outputs[0];
    if (y.shape.rank() != 4 || y.layout != Layout::kChannelsLast) return Rejection{"takes channels-last images"};
    const std::int64_t groups = spec.attributes[attr::kGroups], counted = spec.attributes[attr::kChannels];
    if ((counted != 0 && counted != y.shape[1]) || !fits_packs(y.shape[1] / groups, y.shape[1], size_of(y.dtype)))
      return Rejection{"takes channels in packs of 16 bytes, and groups of an even number of them"};
    if (Support rejection = check_images(y, groups)) return rejection;
    // Elements that are read twice must still be in the second-level cache, in whole sectors.
    constexpr std::size_t kMostRead = std::size_t{32} << 20, kLeastColumns = 3;
    const GroupNormOnce norm = share_norm(program_of_norm(spec), spec, target.compute_capability);
    if (norm.tiles > 1 && (y.bytes() > kMostRead || static_cast<std::size_t>(norm.columns) < kLeastColumns))
      return Rejection{"takes images that the blocks of a cluster or the second-level cache can keep"};
    return std::nullopt;
  }
};

class FusedGroupNorm : public CudaKernel {
 public:
  using CudaKernel::CudaKernel;

  [[nodiscard]] StrideRule input_strides(const OpSpec& spec, int input) const override {
    const GroupNormProgram program = program_of_body(spec);
    if (input == program.shift || input == program.scale || input == program.offset) return StrideRule::kAny;
    return CudaKernel::input_strides(spec, input);
  }
  [[nodiscard]] bool may_overwrite(const OpSpec& spec, int input, int output) const override {
    const GroupNormProgram program = program_of_body(spec);
    return program.parts == std::vector{input} && CudaKernel::may_overwrite(spec, input, output);
  }
};

}  // namespace

const Kernel& cuda_group_norm_once() {
  static const GroupNormOnceKernel kernel({.name = "cuda.group_norm_once",
                                           .op = Op::kGroupNorm,
                                           .supports = cuda::supports_elements,
                                           .strides = StrideRule(StrideRule::kDense, 16),
                                           .in_place = true,
                                           .plan = plan_norm_once});
  return kernel;
}

const Kernel& cuda_fused_group_norm() {
  static const FusedGroupNorm kernel({.name = "cuda.fused_group_norm",
                                      .op = Op::kFused,
                                      .supports = supports_norm_body,
                                      .strides = StrideRule(StrideRule::kDense, 16),
                                      .in_place = true,
                                      .plan = plan_body_once});
  return kernel;
}

}  // namespace headroom
