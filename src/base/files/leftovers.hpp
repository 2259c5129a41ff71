#pragma once

#include <filesystem>

namespace headroom {

/// What a program that is killed leaves beside the file or folder that it was writing: NAME.PID-N.tmp and NAME.partial.PID. While
/// it writes, it holds a lock on them, which the system takes back from a process that ends.

/// Locks a temporary file or folder that was just made, until its descriptor is closed. False where another process is removing it,
/// which took it for a leftover. A file system without locks counts as locked.
[[nodiscard]] bool hold_temporary(int descriptor);

/// Removes what processes that are gone have left beside `target`: temporary names of it that nobody holds, and whose process number
/// no other process has. What cannot be removed stays.
void remove_leftovers(const std::filesystem::path& target);

/// A folder NAME.partial.PID beside `target`, which becomes it or is removed with all that is in it. Leftovers of others are removed
/// first. Throws filesystem_error where it cannot be made, or is there.
class PartialFolder {
 public:
  explicit PartialFolder(std::filesystem::path target);
  ~PartialFolder();
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// Gives it the name that it was made for; nothing may be there.
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path path_;  // empty after commit()
  int descriptor_ = -1;
};

}  // namespace headroom
