#pragma once

#include <cstdint>
#include <optional>

namespace headroom {

/// Physical memory held by this process, as Linux counts it in /proc/self/status.
struct ResidentMemory {
  std::uint64_t now_bytes = 0;
  std::uint64_t peak_bytes = 0;  ///< the most since the process began or reset_peak_resident() succeeded
};

/// Nothing if the system does not report it (some sandboxes hide these lines).
[[nodiscard]] std::optional<ResidentMemory> resident_memory();

/// Starts a new peak at the current value, by writing 5 to /proc/self/clear_refs (proc(5)). Returns whether it was
/// permitted; if not, a result must not report the peak as its own.
[[nodiscard]] bool reset_peak_resident();

}  // namespace headroom
