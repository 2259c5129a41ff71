#include "base/files/file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/error.hpp"

namespace headroom {
namespace {

/// Whether the opened file still has that name; its last owner may have removed it in the meantime.
bool is_still_there(int descriptor, const std::filesystem::path& path) {
  struct stat opened {
  }, named{};
  return ::fstat(descriptor, &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

}  // namespace

FileLock::FileLock(const std::filesystem::path& path, WhenTaken when_taken) {
  const int mode = LOCK_EX | (when_taken == WhenTaken::kWait ? 0 : LOCK_NB);
  std::error_code error;
  lock_ =
      std::filesystem::weakly_canonical(std::filesystem::absolute(path), error);  // one lock for all paths of the file
  if (error) lock_ = path;
  lock_ += ".lock";
  while (true) {
    descriptor_ = ::open(lock_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail("cannot make {}: {}", lock_.native(), std::generic_category().message(errno));
    if (::flock(descriptor_, mode) != 0) {
      const int reason = errno;
      ::close(descriptor_);
      if (reason == EINTR) continue;
      if (reason == EWOULDBLOCK)
        fail("another process is writing to {} (it holds {}); wait for it, or write elsewhere", path.native(),
             lock_.native());
      fail("cannot lock {}: {}", lock_.native(), std::generic_category().message(reason));
    }
    if (is_still_there(descriptor_, lock_)) return;
    ::close(descriptor_);
  }
}

FileLock::~FileLock() {
  ::unlink(lock_.c_str());  // before the lock is released: afterwards another process may own the name
  ::close(descriptor_);
}

}  // namespace headroom
