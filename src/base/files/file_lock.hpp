#pragma once

#include <filesystem>

namespace headroom {

/// A lock on a file between processes, held while the object lives. It locks `PATH.lock` next to the file, because
/// an atomically replaced file is a new one each time. The lock file is removed with the object. The system
/// releases the lock of a killed process, even if its lock file remains.
class FileLock {
 public:
  enum class WhenTaken : bool { kFail, kWait };
  /// Throws Error if the lock file cannot be created, or if another process holds the lock and `when_taken` is not
  /// to wait.
  explicit FileLock(const std::filesystem::path& path, WhenTaken when_taken = WhenTaken::kFail);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  std::filesystem::path lock_;
  int descriptor_ = -1;
};

}  // namespace headroom
