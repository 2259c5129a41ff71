#pragma once

#include <filesystem>

namespace headroom {

/// Keeps other processes that take the same lock from working on a file at the same time. What is locked is `PATH.lock`
/// beside it, because a file that is replaced whole is another one each time; it is gone with the object. The system
/// takes the lock back from a process that is killed, whatever it leaves behind.
class FileLock {
 public:
  enum class WhenTaken : bool { kFail, kWait };
  /// Throws Error where another process holds the lock and that is not to be waited for, or the lock file cannot be made.
  explicit FileLock(const std::filesystem::path& path, WhenTaken when_taken = WhenTaken::kFail);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  std::filesystem::path lock_;
  int descriptor_ = -1;
};

}  // namespace headroom
