#pragma once

#include <cstdint>
#include <optional>

namespace headroom {

/// Physical memory held by this process, as Linux counts it in /proc/self/status.
struct ResidentMemory {
  std::uint64_t now_bytes = 0;
  std::uint64_t peak_bytes = 0;  ///< the most since the process began or reset_peak_resident() succeeded
};

/// Nothing where the system does not say (some sandboxes hide these lines).
[[nodiscard]] std::optional<ResidentMemory> resident_memory();

/// Starts a new peak at what is held now, by writing 5 to /proc/self/clear_refs (proc(5)). Returns whether it was
/// permitted; a result must not report a peak as its own where it was not.
[[nodiscard]] bool reset_peak_resident();

}  // namespace headroom
