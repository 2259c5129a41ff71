#pragma once

#include <functional>

#include "kernels/kernel.hpp"
#include "kernels/traits_kernel.hpp"

namespace headroom {

/// A CPU kernel bound to shapes and strides. `launch` allocates nothing.
struct CpuPlan {
  std::function<void(const LaunchArguments&)> launch;
  std::size_t scratch_bytes = 0;
};

/// What a CPU kernel is bound to.
struct CpuBinding {
  const OpSpec& spec;
  std::span<const Operand> inputs;
  std::span<const Operand> outputs;
  int threads;   ///< that launch may use
  bool streams;  ///< the operands together do not fit the cache: what is written is gone before it is read
};

/// All that tells one of the kernels written here for CPUs from another.
struct CpuKernelTraits {
  std::string_view name;
  Op op;
  Support (*supports)(const OpSpec& spec);
  StrideRule strides = StrideRule::kInnerDense;  ///< of every operand
  bool in_place = false;                         ///< output 0 may be written over any input of the same type
  DType compute = DType::kF32;                   ///< dtype of the arithmetic; copies report what they move
  CpuPlan (*plan)(const CpuBinding& binding);
};

/// A kernel given by its traits; runs on the calling thread's OpenMP team.
class CpuKernel final : public TraitsKernel<DeviceKind::kCpu, CpuKernelTraits> {
 public:
  using TraitsKernel::TraitsKernel;

  [[nodiscard]] bool may_overwrite(const OpSpec& spec, int input) const override;
  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const OpSpec& spec, std::span<const Operand> inputs,
                                                        std::span<const Operand> outputs,
                                                        const Target& target) const override;
};

/// Whether a launch that `streams` writes output 0 past the cache: not over an input, whose lines are there already.
/// The output then begins on a cache line.
[[nodiscard]] bool writes_past_cache(bool streams, const LaunchArguments& arguments);

/// Supported where the operands are row-major and of dtypes that supports_f32_or_bf16() takes: for kernels that work
/// along the innermost axis.
[[nodiscard]] Support supports_rows(const OpSpec& spec);
/// Supported where output 0 is f32 or bf16 and every input has its dtype, or f32 (the small operands beside a bf16
/// tensor).
[[nodiscard]] Support supports_f32_or_bf16(const OpSpec& spec);
/// Supported whatever the types are, as ir's infer() allows them.
[[nodiscard]] Support supports_all_types(const OpSpec& spec);

}  // namespace headroom
