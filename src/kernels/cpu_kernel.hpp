#pragma once

#include "kernels/written_kernel.hpp"

namespace headroom {

/// A kernel for CPUs; runs on the calling thread's OpenMP team.
class CpuKernel final : public WrittenKernel {
 public:
  explicit CpuKernel(const KernelTraits& traits) : WrittenKernel(DeviceKind::kCpu, traits) {}
};

/// Whether a launch that `may` do so writes output 0 past the cache: not over an input, whose lines are there already.
/// The output then begins on a cache line.
[[nodiscard]] bool writes_past_cache(bool may, const LaunchArguments& arguments);

/// Supported where output 0 is f32 or bf16 and every input has its dtype, or f32.
[[nodiscard]] Support supports_f32_or_bf16(const OpSpec& spec);
/// The same with row-major operands: for kernels that work along the innermost axis.
[[nodiscard]] Support supports_rows(const OpSpec& spec);

}  // namespace headroom
