#include "doctor/measure_machine.hpp"

#include <algorithm>

#include "backends/device.hpp"
#include "measure/probes/conditions.hpp"
#include "measure/probes/floor.hpp"
#include "measure/protocol/submissions.hpp"

namespace headroom::doctor {

MeasuredFacts measure_machine(Backend& backend) {
  constexpr double kSeconds = 1;
  MachineRates rates(backend, short_protocol(backend, kSeconds));
  // Both tensors of the copy, and as much again for others.
  const std::size_t available = backend.properties().available_bytes;
  const Yardstick& copy = rates.copy(static_cast<double>(std::min(2 * MachineRates::kLargestCopy, available / 2)));
  return {.copy_bytes_per_s = copy.work / copy.ms * 1000,
          .is_gpu = device_of(backend).kind != DeviceKind::kCpu,
          .disturbance = find_disturbance(copy.trials.conditions, copy.trials.wall_ms, "copy")};
}

}  // namespace headroom::doctor
