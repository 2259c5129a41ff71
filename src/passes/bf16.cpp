// bf16: what lies between the first and the last product in bfloat16, as half_precision.cpp says.

#include <fmt/format.h>

#include "passes/half_precision.hpp"

namespace headroom {

PassOutcome bf16(Graph& graph, const Target& target) {
  if (target.device == DeviceKind::kCpu && target.cpu_isa < CpuIsa::kAvx512)
    return {.rewrites = 0,
            .declined = fmt::format("this CPU has no bfloat16 or AVX-512 units: its vector units are {}",
                                    name_of(target.cpu_isa))};
  return to_half_precision(graph, DType::kBF16);
}

}  // namespace headroom
