#include "kernels/core/cpu_kernel.hpp"

#include <algorithm>
#include <utility>

#include "kernels/core/parallel.hpp"

namespace headroom {

KernelPlan share_rows(const RowWork& work, std::function<void(const RowPart&)> run) {
  const auto launch = [work, run = std::move(run)](const LaunchArguments& arguments) {
    const DevicePointer output = arguments.outputs[0];
    const bool past_cache = work.may_pass_cache &&
                            reinterpret_cast<std::uintptr_t>(output.address()) % kCacheLine == 0 &&
                            std::ranges::find(arguments.inputs, output) == arguments.inputs.end();
    parallel_for(work.threads, work.rows, grain_of(work.elements),
                 [&](std::int64_t begin, std::int64_t end, int thread) {
                   float* own = arguments.scratch_memory<float>() + thread * work.scratch_elements;
                   run({begin, end, past_cache, arguments, own});
                 });
  };
  return {launch, static_cast<std::size_t>(work.threads * work.scratch_elements) * sizeof(float)};
}

Support supports_f32_or_bf16(const OpSpec& spec) { return supports_stored(spec, false); }

Support supports_rows(const OpSpec& spec) {
  if (Support rejection = supports_row_major(spec)) return rejection;
  return supports_f32_or_bf16(spec);
}

}  // namespace headroom
