#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace headroom {

/// A limit on the memory of this process, and the bytes left under it.
struct MemoryRoom {
  std::size_t bytes = 0;
  std::string limit;  ///< in words: "the control group /jobs/7, which allows 2.0 GiB"
};

/// The least room of this process' control group and its ancestors, of version 1 or 2; nothing if none of them has a
/// limit. Inactive file pages count as free: the kernel drops them before it ends a process. `root` is the folder of
/// /proc and of the mount points of control groups, "/" except in tests.
[[nodiscard]] std::optional<MemoryRoom> control_group_room(const std::filesystem::path& root = "/");

/// The least room of the inherited limits (setrlimit): address space (RLIMIT_AS) and data (RLIMIT_DATA); nothing if
/// neither is set. Memory of threads and libraries counts as well.
[[nodiscard]] std::optional<MemoryRoom> resource_limit_room();

/// Throws OutOfMemory if those limits leave less than `bytes` for `what`, a description. Called before a library
/// that ends the process when it gets no memory.
void require_room(std::size_t bytes, std::string_view what);

}  // namespace headroom
