#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace headroom {

/// A limit on the memory of this process, and how much may still be taken under it.
struct MemoryRoom {
  std::size_t bytes = 0;
  std::string limit;  ///< in words: "the control group /jobs/7, which allows 2.0 GiB"
};

/// The least room of this process' control group and those around it, of version 1 or 2; nothing where none of them has
/// a limit. Inactive file pages count as free: the kernel drops them before it ends a process. `root` is where /proc and
/// the mount points of control groups lie, "/" but for tests.
[[nodiscard]] std::optional<MemoryRoom> control_group_room(const std::filesystem::path& root = "/");

/// The least room of the limits that a process inherits (setrlimit): its address space (RLIMIT_AS) and its data
/// (RLIMIT_DATA); nothing where neither is set. Threads and libraries take of it as well.
[[nodiscard]] std::optional<MemoryRoom> resource_limit_room();

/// Throws OutOfMemory where those limits leave less than `bytes` for `what`, in words: before a library is called that ends
/// the process where it gets no memory.
void require_room(std::size_t bytes, std::string_view what);

}  // namespace headroom
