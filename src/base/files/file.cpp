#include "base/files/file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/files/leftovers.hpp"
#include "base/files/truncated_file.hpp"
#include "base/text/printable.hpp"

namespace headroom {
namespace fs = std::filesystem;
namespace {

/// The system's message for an errno value; unlike strerror, thread-safe.
std::string reason(int error) { return std::generic_category().message(error); }

/// Throws Error for a name that the system would truncate at its first NUL byte.
void check_name(const fs::path& path) {
  if (path.native().find('\0') != std::string::npos)
    fail("no file can be called '{}': a name holds no NUL byte", printable_name(path.native()));
}

/// Opens a new file next to `target`. The process number makes its name unique among programs, the counter among
/// threads and leftovers; O_EXCL guarantees it.
int open_temporary(const fs::path& target, fs::path& temporary) {
  constexpr int kMostLeftovers = 10'000;  // per process number
  for (int attempt = 0;; ++attempt) {
    temporary = target;
    temporary += fmt::format(".{}-{}.tmp", ::getpid(), attempt);
    const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0 && !hold_temporary(descriptor)) {
      ::close(descriptor);
      continue;
    }
    if (descriptor >= 0 || errno != EEXIST || attempt == kMostLeftovers) return descriptor;
  }
}

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

/// A file opened for reading: a regular file, or a pipe if allowed.
class OpenedFile {
 public:
  OpenedFile(const fs::path& path, bool takes_pipes)
      // O_NONBLOCK: opening a pipe must not wait for a writer.
      : descriptor_((check_name(path), ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY))) {
    if (descriptor_ < 0) fail("cannot read {}: {}", path.native(), reason(errno));
    try {
      struct stat status {};
      if (::fstat(descriptor_, &status) != 0) fail("cannot read {}: {}", path.native(), reason(errno));
      const bool is_pipe = takes_pipes && S_ISFIFO(status.st_mode);
      if (!is_pipe && !S_ISREG(status.st_mode))
        fail("cannot read {}: it is {}, but a regular file was expected", path.native(), kind_of(status.st_mode));
      if (is_pipe) ::fcntl(descriptor_, F_SETFL, O_RDONLY);  // reading it may wait
      size_ = is_pipe ? 0 : static_cast<std::size_t>(status.st_size);
    } catch (const Error&) {
      ::close(descriptor_);
      throw;
    }
  }
  ~OpenedFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// Releases the descriptor, which the caller must close.
  [[nodiscard]] int release() noexcept { return std::exchange(descriptor_, -1); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  int descriptor_;
  std::size_t size_ = 0;
};

/// Removes, at the end of the scope, a folder and those of its parents that did not exist at the beginning.
class NewFolders {
 public:
  explicit NewFolders(const fs::path& folder) {
    for (fs::path at = folder; !at.empty() && !fs::exists(fs::symlink_status(at)); at = at.parent_path())
      missing_.push_back(at);
  }
  ~NewFolders() {
    for (const fs::path& folder : missing_) ::rmdir(folder.c_str());
  }
  NewFolders(const NewFolders&) = delete;
  NewFolders& operator=(const NewFolders&) = delete;

 private:
  std::vector<fs::path> missing_;  // innermost first
};

}  // namespace

std::string reason_not_written(int error, const fs::path& place, std::uint64_t bytes) {
  const std::string needed = bytes == 0 ? "" : fmt::format(": {} bytes needed", bytes);
  if (error == ENOSPC || error == EDQUOT) return fmt::format("no space left on {}{}", place.native(), needed);
  if (error == EFBIG) return fmt::format("files in {} may not become so large{}", place.native(), needed);
  return reason(error);
}

AtomicFile::AtomicFile(fs::path path, std::uint64_t expected_bytes)
    : path_(std::move(path)), target_(path_), expected_bytes_(expected_bytes) {
  check_name(path_);
  struct stat status {};
  const bool exists = ::stat(path_.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) fail("cannot write {}: it is a directory", path_.native());
  if (exists && !S_ISREG(status.st_mode)) {
    is_device_ = true;
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail("cannot write {}: {}", path_.native(), reason(errno));
    return;
  }
  if (struct stat link{}; ::lstat(path_.c_str(), &link) == 0 && S_ISLNK(link.st_mode)) {
    std::error_code error;
    target_ = fs::weakly_canonical(path_, error);
    if (error) fail("cannot write {}: {}", path_.native(), error.message());
  }
  remove_leftovers(target_);
  descriptor_ = open_temporary(target_, temporary_);
  if (descriptor_ < 0) {
    temporary_.clear();
    fail_to_write(errno);
  }
  // Replacing a file must not change its permissions. A failure to copy the mode is harmless.
  if (exists) static_cast<void>(::fchmod(descriptor_, status.st_mode & 07777));
}

AtomicFile::~AtomicFile() { discard(); }

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::move(other.temporary_)),
      expected_bytes_(other.expected_bytes_),
      given_bytes_(other.given_bytes_),
      is_device_(other.is_device_),
      descriptor_(std::exchange(other.descriptor_, -1)) {
  other.temporary_.clear();
}

void AtomicFile::discard() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

void AtomicFile::fail_to_write(int error) {
  discard();  // frees the space of a full disk now, rather than when the error has been handled
  const fs::path folder = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  fail("cannot write {}: {}", path_.native(),
       reason_not_written(error, is_device_ ? path_ : folder, std::max(expected_bytes_, given_bytes_)));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  HR_CHECK(descriptor_ >= 0);
  given_bytes_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_to_write(errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  HR_CHECK(descriptor_ >= 0);
  given_bytes_ = std::max(given_bytes_, offset + bytes.size());
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_to_write(errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
}

void AtomicFile::commit() {
  HR_CHECK(descriptor_ >= 0);
  // Without the flush, a crash could leave the new name with incomplete content. Devices and pipes do not support
  // fsync.
  bool good = is_device_ || ::fsync(descriptor_) == 0;
  int error = errno;
  // Network file systems may report a full disk only here.
  if (::close(std::exchange(descriptor_, -1)) != 0 && good) {
    good = false;
    error = errno;
  }
  if (good && !is_device_) {
    good = ::rename(temporary_.c_str(), target_.c_str()) == 0;
    error = errno;
    if (good) temporary_.clear();
  }
  if (!good) fail_to_write(error);
}

void write_file_atomically(const fs::path& path, std::span<const std::byte> bytes) {
  AtomicFile file(path, bytes.size());
  file.write(bytes);
  file.commit();
}

void write_file_atomically(const fs::path& path, std::string_view text) {
  write_file_atomically(path, std::as_bytes(std::span(text)));
}

void make_folder(const fs::path& folder) {
  check_name(folder);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    fail("{}: cannot make the folder: {}", folder.native(), reason_not_written(error.value(), folder.parent_path(), 0));
}

void check_writable(const fs::path& path) {
  if (path.empty()) fail("cannot write '': expected the name of a file");
  check_name(path);
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (!exists || S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) {
    const AtomicFile probe(path);  // leaves nothing, because it is not committed
    return;
  }
  // Opening a pipe would signal the end of its data to the reader.
  if (::access(path.c_str(), W_OK) != 0) fail("cannot write {}: {}", path.native(), reason(errno));
}

void check_writable_in(const fs::path& folder, const fs::path& name) {
  const NewFolders made(folder);
  make_folder(folder);
  check_writable(folder / name);
}

bool is_there(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status)) return true;
  if (status.type() != fs::file_type::not_found) fail("cannot read {}: {}", path.native(), error.message());
  std::error_code ignored;
  if (fs::is_symlink(fs::symlink_status(path, ignored)))
    fail("cannot read {}: it is a link to {}, which is not there", path.native(),
         fs::read_symlink(path, ignored).native());
  return false;
}

bool is_folder(const fs::path& path) {
  std::error_code error;
  return is_there(path) && fs::is_directory(path, error);
}

std::vector<fs::path> list_folder(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    paths.push_back(entry->path());
  if (error) fail("cannot read {}: {}", folder.native(), error.message());
  std::ranges::sort(paths);
  return paths;
}

std::string read_file(const fs::path& path, const ReadLimits& limits) {
  const OpenedFile file(path, limits.takes_pipes);
  const auto fail_too_large = [&](std::string_view size) {
    fail("cannot read {}: it has {} bytes, but at most {} were expected", path.native(), size, limits.most_bytes);
  };
  if (file.size() > limits.most_bytes) fail_too_large(fmt::format("{}", file.size()));
  std::string content;
  constexpr std::size_t kChunk = std::size_t{1} << 16;
  // The size is only a hint: pipes and /proc report 0, and a file may grow.
  content.reserve(file.size() + kChunk);
  std::size_t length = 0;
  while (true) {
    content.resize(length + kChunk);
    const ssize_t count = ::read(file.descriptor(), content.data() + length, kChunk);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("cannot read {}: {}", path.native(), reason(errno));
    if (count == 0) break;
    length += static_cast<std::size_t>(count);
    if (length > limits.most_bytes) fail_too_large("more");
  }
  content.resize(length);
  return content;
}

MappedFile::MappedFile(fs::path path) : path_(std::move(path)) {
  OpenedFile file(path_, /*takes_pipes=*/false);
  if (file.size() == 0) return;  // an empty file cannot be mapped
  void* const address = ::mmap(nullptr, file.size(), PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (address == MAP_FAILED) fail("cannot read {}: {}", path_.native(), reason(errno));
  bytes_ = {static_cast<const std::byte*>(address), file.size()};
  watch(bytes_, path_, file.release());
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  unwatch(bytes_);
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

void MappedFile::advise_sequential() const noexcept {
  if (!bytes_.empty()) ::madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_SEQUENTIAL);
}

void MappedFile::release(std::uint64_t offset, std::uint64_t length) const {
  HR_CHECK_LE(offset, size());
  HR_CHECK_LE(length, size() - offset);
  if (length == 0) return;
  // The system may map this much at once for a single byte (a large folio), including neighbours that were already
  // released. A page of a read-only file mapping holds only file content, so dropping a neighbour's bytes is
  // harmless.
  constexpr std::uint64_t kMappedAtOnce = std::uint64_t{2} << 20;
  const std::uint64_t begin = offset / kMappedAtOnce * kMappedAtOnce;
  const std::uint64_t last = (offset + length + kMappedAtOnce - 1) / kMappedAtOnce * kMappedAtOnce;
  const std::uint64_t end = std::min(last, size());
  ::madvise(const_cast<std::byte*>(bytes_.data()) + begin, end - begin, MADV_DONTNEED);
  require_whole(bytes_);
}

}  // namespace headroom
