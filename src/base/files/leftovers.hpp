#pragma once

#include <filesystem>
#include <string_view>

namespace headroom {

/// Temporary files and folders that a killed program leaves next to its output: NAME.PID-N.tmp and
/// NAME.partial.PID. A writing program holds a lock on them, which the system releases when the process ends.

/// Lies between the name of a folder and the process that fills it.
inline constexpr std::string_view kPartialMark = ".partial.";

/// Locks a new temporary file or folder until its descriptor is closed. Returns false if another process took it
/// for a leftover and is removing it. On a file system without locks it returns true.
[[nodiscard]] bool hold_temporary(int descriptor);

/// Removes leftovers next to `target`: its temporary names that nobody locks and whose process number is not in use
/// by another process that runs. Files that cannot be removed are left.
void remove_leftovers(const std::filesystem::path& target);

/// A folder NAME.partial.PID next to `target`. It is renamed to `target`, or removed with its content. First
/// removes leftovers of other processes. Throws filesystem_error if it cannot be created, or exists.
class PartialFolder {
 public:
  explicit PartialFolder(std::filesystem::path target);
  ~PartialFolder();
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// Renames it to its final name, which must not exist.
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path path_;  // empty after commit()
  int descriptor_ = -1;
};

}  // namespace headroom
