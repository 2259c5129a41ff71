#include "backends/cpu/memory_limits.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <string_view>
#include <utility>

#include "backends/cpu/control_groups.hpp"
#include "backends/cpu/cpu_info.hpp"
#include "base/files/system_text.hpp"
#include "base/out_of_memory.hpp"
#include "base/text/format.hpp"

namespace headroom {
namespace fs = std::filesystem;
namespace {

/// The number after `key` and a blank, in the format of memory.stat.
std::size_t stat_bytes(const std::string& stat, std::string_view key) {
  std::istringstream lines(stat);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(key) && line.size() > key.size() && line[key.size()] == ' ')
      return number_in<std::size_t>(std::string_view(line).substr(key.size() + 1)).value_or(0);
  return 0;
}

/// The files of a control group by the version of its hierarchy.
struct Hierarchy {
  const char* limit;
  const char* usage;
  const char* inactive_file;  // in memory.stat: pages of this group and those in it
};
constexpr Hierarchy kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr Hierarchy kVersion2 = {"memory.max", "memory.current", "inactive_file"};

/// Values from here on mean no limit: version 2 writes "max", which is no number, version 1 the largest whole number
/// of pages.
constexpr std::size_t kNoLimit = std::numeric_limits<std::int64_t>::max() / 2;

std::optional<MemoryRoom> room_of(const fs::path& group, const Hierarchy& files, const std::string& name) {
  const auto limit = number_in<std::size_t>(system_text(group / files.limit));
  const auto usage = number_in<std::size_t>(system_text(group / files.usage));
  if (!limit || *limit >= kNoLimit || !usage) return std::nullopt;
  const std::size_t cache = stat_bytes(system_text(group / "memory.stat"), files.inactive_file);
  const std::size_t held = *usage - std::min(*usage, cache);
  return MemoryRoom{.bytes = *limit - std::min(*limit, held),
                    .limit = fmt::format("the control group {}, which allows {}", name, format_bytes(*limit))};
}

void take_less(std::optional<MemoryRoom>& least, std::optional<MemoryRoom> other) {
  if (other && (!least || other->bytes < least->bytes)) least = std::move(other);
}

}  // namespace

std::optional<MemoryRoom> control_group_room(const fs::path& root) {
  std::optional<MemoryRoom> least;
  for (const ControlGroup& group : control_groups("memory", root))
    take_less(least, room_of(group.folder, group.is_version_2 ? kVersion2 : kVersion1, group.name));
  return least;
}

std::optional<MemoryRoom> resource_limit_room() {
  std::optional<MemoryRoom> least;
  const auto consider = [&](auto resource, std::string_view used_line, std::string_view what) {
    struct rlimit limit {};
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
    const std::string status = system_text("/proc/self/status");
    const std::size_t used = number_in<std::size_t>(find_colon_value(status, used_line)).value_or(0) * 1024;
    take_less(least, MemoryRoom{.bytes = limit.rlim_cur - std::min<std::size_t>(limit.rlim_cur, used),
                                .limit = fmt::format("{}, limited to {}", what, format_bytes(limit.rlim_cur))});
  };
  consider(RLIMIT_AS, "VmSize", "the process's address space (ulimit -v)");
  consider(RLIMIT_DATA, "VmData", "the process's data (ulimit -d)");
  return least;
}

void require_room(std::size_t bytes, std::string_view what) {
  const std::optional<MemoryRoom> room = resource_limit_room();
  if (room && room->bytes < bytes)
    throw OutOfMemory(fmt::format("{} needs {} of memory, and of {}, there are {} left", what, format_bytes(bytes),
                                  room->limit, format_bytes(room->bytes)));
}

}  // namespace headroom
