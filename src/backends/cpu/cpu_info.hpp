#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/target.hpp"

namespace headroom {

/// The value of the first line `key : value` of a text in the form of /proc/cpuinfo, or "" where there is none.
[[nodiscard]] std::string find_colon_value(std::string_view text, std::string_view key);

/// The CPU's model name from /proc/cpuinfo; "unknown CPU" where the system gives none.
[[nodiscard]] std::string cpu_name();

/// The widest vector units that this CPU has and this process may use. For AMX it asks the kernel for the tile state
/// (arch_prctl ARCH_REQ_XCOMP_PERM), without which the first tile instruction would end the process.
[[nodiscard]] CpuIsa detect_cpu_isa();

/// From now on detect_cpu_isa() answers no more than `most`, for the whole process.
void limit_detected_isa(CpuIsa most);

/// Logical CPUs that the affinity mask of the calling thread allows; at least 1.
[[nodiscard]] int allowed_cpus();

/// The size of the largest cache; 0 where the system does not tell.
[[nodiscard]] std::size_t last_level_cache_bytes();
/// Of the second-level cache that a core has; 0 where the system does not tell.
[[nodiscard]] std::size_t core_cache_bytes();

struct SystemMemory {
  std::size_t installed_bytes = 0;
  /// Without swapping, and within the limits of this process: its control groups' and those that it inherits.
  std::size_t available_bytes = 0;
  std::string limit;  ///< which of those limits is the least, in words; empty where no other than what is free
};
[[nodiscard]] SystemMemory system_memory();

}  // namespace headroom
