#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/target.hpp"

namespace headroom {

/// The value of the first line `key : value` of a text in the format of /proc/cpuinfo, or "" if there is none.
[[nodiscard]] std::string find_colon_value(std::string_view text, std::string_view key);

/// The CPU's model name from /proc/cpuinfo; "unknown CPU" where the system gives none.
[[nodiscard]] std::string cpu_name();

/// The widest vector instruction set that this CPU has and this process may use. For AMX this requests the tile
/// state from the kernel (arch_prctl ARCH_REQ_XCOMP_PERM); without it the first tile instruction would end the
/// process.
[[nodiscard]] CpuIsa detect_cpu_isa();

/// Caps the result of detect_cpu_isa() at `most`, for the whole process.
void limit_detected_isa(CpuIsa most);

/// Logical CPUs that the affinity mask of the calling thread allows; at least 1.
[[nodiscard]] int allowed_cpus();

/// The size of the largest cache; 0 if unknown.
[[nodiscard]] std::size_t last_level_cache_bytes();
/// The size of a core's second-level cache; 0 if unknown.
[[nodiscard]] std::size_t core_cache_bytes();

struct SystemMemory {
  std::size_t installed_bytes = 0;
  /// Available without swapping, within the limits of this process: those of its control groups and inherited ones.
  std::size_t available_bytes = 0;
  std::string limit;  ///< the lowest of those limits, in words; empty if only free memory limits it
};
[[nodiscard]] SystemMemory system_memory();

}  // namespace headroom
