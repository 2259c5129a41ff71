#include "kernels/core/written_kernel.hpp"

#include <string>
#include <utility>

#include "kernels/core/simd_targets.hpp"
#include "kernels/core/support.hpp"

namespace headroom {
namespace {

std::size_t bytes_of(std::span<const Operand> operands) {
  std::size_t bytes = 0;
  for (const Operand& operand : operands) bytes += operand.type.bytes();
  return bytes;
}

}  // namespace

Support WrittenKernel::supports(const OpSpec& spec, const Target& target) const {
  if (Support rejection = check_op(traits_.op, device_, spec, target)) return rejection;
  return traits_.supports(spec);
}

bool WrittenKernel::may_overwrite(const OpSpec& spec, int input, int output) const {
  const bool is_kept = (traits_.kept >> static_cast<unsigned>(input) & 1U) != 0;
  return output == 0 && traits_.in_place && !is_kept && spec.inputs[static_cast<std::size_t>(input)] == spec.outputs[0];
}

std::unique_ptr<PreparedKernel> WrittenKernel::prepare(const OpSpec& spec, std::span<const Operand> inputs,
                                                       std::span<const Operand> outputs,
                                                       const DeviceTarget& target) const {
  const bool exceeds_cache = target.cache_bytes > 0 && bytes_of(inputs) + bytes_of(outputs) > target.cache_bytes;
  KernelPlan plan = traits_.plan({spec, inputs, outputs, target.threads, exceeds_cache, target});
  if (plan.implementation.empty())
    plan.implementation = device_ == DeviceKind::kCpu ? highway_target_name() : std::string(name_of(device_));
  return std::make_unique<PreparedKernel>(std::move(plan));
}

Support supports_all_types(const OpSpec&) { return std::nullopt; }

Support supports_row_major(const OpSpec& spec) {
  for (const TensorType& input : spec.inputs)
    if (input.layout != Layout::kRowMajor) return Rejection{"needs row-major operands"};
  return std::nullopt;
}

Support supports_stored(const OpSpec& spec, bool f16_too) {
  const DType dtype = spec.outputs[0].dtype;
  if (dtype != DType::kF32 && dtype != DType::kBF16 && !(f16_too && dtype == DType::kF16))
    return Rejection{fmt::format("stores {}, not {}", f16_too ? "f32, bf16 or f16" : "f32 or bf16", dtype)};
  for (const TensorType& input : spec.inputs)
    if (input.dtype != dtype && input.dtype != DType::kF32)
      return Rejection{fmt::format("takes {} or f32 next to {}, not {}", dtype, dtype, input.dtype)};
  return std::nullopt;
}

}  // namespace headroom
