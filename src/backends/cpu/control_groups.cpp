#include "backends/cpu/control_groups.hpp"

#include <algorithm>
#include <optional>
#include <sstream>

#include "base/files/system_text.hpp"

namespace headroom {
namespace fs = std::filesystem;
namespace {

/// The mount point of a hierarchy, and the group that the mount shows as its root.
struct Mount {
  fs::path point;
  std::string root;
  bool is_version_2 = false;
};

std::vector<std::string> split(const std::string& line, char at) {
  std::vector<std::string> parts;
  std::istringstream in(line);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

bool lists(const std::string& names, std::string_view name) {
  const std::vector<std::string> all = split(names, ',');
  return std::ranges::find(all, name) != all.end();
}

/// The mounts with this controller (proc(5), /proc/[pid]/mountinfo).
std::vector<Mount> find_mounts(std::string_view controller, const fs::path& root) {
  std::vector<Mount> mounts;
  std::istringstream lines(system_text(root / "proc/self/mountinfo"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> before = split(line.substr(0, dash), ' '), after = split(line.substr(dash + 3), ' ');
    if (before.size() < 5 || after.empty()) continue;
    const bool is_version_2 = after[0] == "cgroup2";
    if (!is_version_2 && (after[0] != "cgroup" || after.size() < 3 || !lists(after[2], controller))) continue;
    mounts.push_back(
        {.point = root / fs::path(before[4]).relative_path(), .root = before[3], .is_version_2 = is_version_2});
  }
  return mounts;
}

/// The group of this process in a hierarchy (cgroups(7), /proc/[pid]/cgroup: "4:memory:/jobs", "0::/jobs").
std::optional<std::string> own_group(const std::string& groups, std::string_view controller, bool is_version_2) {
  std::istringstream lines(groups);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_it = is_version_2 ? line.starts_with("0::") : lists(controllers, controller);
    if (is_it) return line.substr(second + 1);
  }
  return std::nullopt;
}

}  // namespace

std::vector<ControlGroup> control_groups(std::string_view controller, const fs::path& root) {
  const std::string own_groups = system_text(root / "proc/self/cgroup");
  std::vector<ControlGroup> groups;
  for (const Mount& mount : find_mounts(controller, root)) {
    const std::optional<std::string> own = own_group(own_groups, controller, mount.is_version_2);
    if (!own) continue;
    // In a container the mount shows the group of the container, by whatever name the host knows it.
    const std::string& shown = mount.root;
    const bool is_below = shown == "/" || *own == shown || own->starts_with(shown + "/");
    const std::string rest = !is_below ? "" : shown == "/" ? *own : own->substr(shown.size());
    fs::path name = fs::path("/") / fs::path(rest).relative_path().lexically_normal();
    if (name.native().find("..") != std::string::npos) name = "/";
    for (;; name = name.parent_path()) {
      groups.push_back(
          {.folder = mount.point / name.relative_path(), .name = name.native(), .is_version_2 = mount.is_version_2});
      if (name == name.parent_path()) break;
    }
  }
  return groups;
}

}  // namespace headroom
