#include "kernels/cpu_kernel.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/row_loop.hpp"
#include "kernels/simd_targets.hpp"

namespace headroom {
namespace {

std::size_t bytes_of(std::span<const Operand> operands) {
  std::size_t bytes = 0;
  for (const Operand& operand : operands)
    bytes += static_cast<std::size_t>(operand.type.shape.numel()) * size_of(operand.type.dtype);
  return bytes;
}

class CpuPrepared final : public PreparedKernel {
 public:
  explicit CpuPrepared(CpuPlan plan) : plan_(std::move(plan)) {}
  [[nodiscard]] std::size_t scratch_bytes() const override { return plan_.scratch_bytes; }
  [[nodiscard]] std::string implementation() const override { return highway_target_name(); }
  void launch(const LaunchArguments& arguments) const override { plan_.launch(arguments); }

 private:
  CpuPlan plan_;
};

}  // namespace

bool CpuKernel::may_overwrite(const OpSpec& spec, int input) const {
  return traits().in_place && spec.inputs[static_cast<std::size_t>(input)] == spec.outputs[0];
}

std::unique_ptr<PreparedKernel> CpuKernel::prepare(const OpSpec& spec, std::span<const Operand> inputs,
                                                   std::span<const Operand> outputs, const Target& target) const {
  return std::make_unique<CpuPrepared>(
      traits().plan({.spec = spec,
                     .inputs = inputs,
                     .outputs = outputs,
                     .threads = target.threads,
                     .streams = target.cache_bytes > 0 && bytes_of(inputs) + bytes_of(outputs) > target.cache_bytes}));
}

bool writes_past_cache(bool streams, const LaunchArguments& arguments) {
  const void* output = arguments.outputs[0];
  return streams && reinterpret_cast<std::uintptr_t>(output) % kCacheLine == 0 &&
         std::ranges::find(arguments.inputs, output) == arguments.inputs.end();
}

Support supports_f32_or_bf16(const OpSpec& spec) {
  const DType dtype = spec.outputs[0].dtype;
  if (dtype != DType::kF32 && dtype != DType::kBF16) return Rejection{fmt::format("stores f32 or bf16, not {}", dtype)};
  for (const TensorType& input : spec.inputs) {
    if (input.dtype != dtype && input.dtype != DType::kF32) {
      return Rejection{fmt::format("takes {} or f32 beside {}, not {}", dtype, dtype, input.dtype)};
    }
  }
  return std::nullopt;
}

Support supports_rows(const OpSpec& spec) {
  for (const TensorType& input : spec.inputs) {
    if (input.layout != Layout::kRowMajor) return Rejection{"needs row-major operands"};
  }
  return supports_f32_or_bf16(spec);
}

Support supports_all_types(const OpSpec&) { return std::nullopt; }

}  // namespace headroom
