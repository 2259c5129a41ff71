#include "kernels/core/library_kernel.hpp"

#include "kernels/core/support.hpp"

namespace headroom {

Support LibraryKernel::supports(const OpSpec& spec, const Target& target) const {
  if (Support rejection = check_op(traits_.op, traits_.device, spec, target)) return rejection;
  for (const auto* operands : {&spec.inputs, &spec.outputs})
    for (const TensorType& operand : *operands)
      if (operand.shape.numel() == 0) return Rejection{"an operand has no elements"};
  return traits_.supports(spec, target);
}

StrideRule LibraryKernel::rule(bool strided) const {
  // FP8 GEMMs and cuDNN need such addresses and strides; other GEMMs on a GPU run faster.
  const std::size_t alignment = traits_.device == DeviceKind::kCuda ? 16 : 1;
  return {strided ? StrideRule::kInnerDense : StrideRule::kDense, alignment};
}

bool LibraryKernel::may_overwrite(const OpSpec& spec, int input, int output) const {
  const auto at = static_cast<std::size_t>(input);
  return output == 0 && traits_.overwrites_residual && at >= spec.own_operands() &&
         spec.inputs.at(at) == spec.outputs[0];
}

std::string_view LibraryKernel::compute_name(const OpSpec& spec) const {
  return traits_.device == DeviceKind::kCuda && rounds_to_tf32(spec) ? "tf32" : Kernel::compute_name(spec);
}

std::unique_ptr<PreparedKernel> LibraryKernel::prepare(const OpSpec& spec, std::span<const Operand> inputs,
                                                       std::span<const Operand> outputs,
                                                       const DeviceTarget& target) const {
  return std::make_unique<PreparedKernel>(
      traits_.plan({spec, inputs, outputs, target.threads, /*exceeds_cache=*/false, target}));
}

bool rounds_to_tf32(const OpSpec& spec) { return spec.inputs[0].dtype == DType::kF32 && spec.attributes[attr::kTf32]; }

}  // namespace headroom
