#include "kernels/cpu_kernel.hpp"

#include <algorithm>

#include "kernels/row_loop.hpp"

namespace headroom {

bool writes_past_cache(bool may, const LaunchArguments& arguments) {
  const void* output = arguments.outputs[0];
  return may && reinterpret_cast<std::uintptr_t>(output) % kCacheLine == 0 &&
         std::ranges::find(arguments.inputs, output) == arguments.inputs.end();
}

Support supports_f32_or_bf16(const OpSpec& spec) { return supports_stored(spec, false); }

Support supports_rows(const OpSpec& spec) {
  if (Support rejection = supports_row_major(spec)) return rejection;
  return supports_f32_or_bf16(spec);
}

}  // namespace headroom
