#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// A control group (cgroups(7)) that this process is in.
struct ControlGroup {
  std::filesystem::path folder;  ///< of its files: memory.max, cpu.max
  std::string name;              ///< below the mount: "/jobs/7"; "/" is the outermost group that can be seen
  bool is_version_2 = false;
};

/// The groups of this process with a controller ("memory", "cpu"), each from the innermost outward, in every hierarchy
/// of version 1 or 2. `root` is the folder of /proc and of the mount points, "/" except in tests.
[[nodiscard]] std::vector<ControlGroup> control_groups(std::string_view controller,
                                                       const std::filesystem::path& root = "/");

}  // namespace headroom
