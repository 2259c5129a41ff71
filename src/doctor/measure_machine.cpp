#include "doctor/measure_machine.hpp"

#include <algorithm>

#include "backends/device.hpp"
#include "measure/probes/conditions.hpp"
#include "measure/probes/floor.hpp"
#include "measure/protocol/submissions.hpp"

namespace headroom::doctor {

MeasuredFacts measure_machine(Backend& backend) {
  constexpr double kSeconds = 0.25;  // for a copy and up to three matmuls
  MachineRates rates(backend, short_protocol(backend, kSeconds));
  // Both tensors of the copy, and as much again for others.
  const std::size_t available = backend.properties().available_bytes;
  const Yardstick& copy = rates.copy(static_cast<double>(std::min(2 * MachineRates::kLargestCopy, available / 2)));
  const bool has_bf16 = obstacle_to(Capability::kBf16Units, backend.properties().target).empty();
  const char* const arithmetic = has_bf16 ? "bf16" : "f32";
  const Yardstick& product = rates.gemm(arithmetic);
  return {.copy_bytes_per_s = copy.work / copy.ms * 1000,
          .product_flops_per_s = product.work / product.ms * 1000,
          .product_arithmetic = arithmetic,
          .is_gpu = device_of(backend).kind != DeviceKind::kCpu,
          .disturbance = find_disturbance(copy.trials.conditions, copy.trials.wall_ms, "copy")};
}

}  // namespace headroom::doctor
