#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "doctor/machine_facts.hpp"

namespace headroom::doctor {

/// The widest vector units that the flags of /proc/cpuinfo allow.
[[nodiscard]] CpuIsa isa_of_flags(std::string_view flags);

/// The CPU, from the files below `root`. `used` are the vector units of this program.
[[nodiscard]] CpuFacts read_cpu(const std::filesystem::path& root, CpuIsa used);
[[nodiscard]] MemoryFacts read_memory(const std::filesystem::path& root);
/// "Docker", "Podman", "Kubernetes", "a container", or "" outside of one.
[[nodiscard]] std::string container_of(const std::filesystem::path& root,
                                       const std::map<std::string, std::string>& environment);
/// The environment with which this process began.
[[nodiscard]] std::map<std::string, std::string> read_environment(const std::filesystem::path& root);

}  // namespace headroom::doctor
