#include "doctor/probes/page_cache.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <system_error>

#include "base/error.hpp"

namespace headroom::doctor {
namespace fs = std::filesystem;

namespace {

/// A file opened for reading; closed at the end.
class OpenFile {
 public:
  explicit OpenFile(const fs::path& path) : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace

std::optional<std::uint64_t> cached_bytes(const fs::path& path) {
  const OpenFile file(path);
  struct stat status {};
  if (file.descriptor() < 0 || fstat(file.descriptor(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  // can_do_mincore() of Linux: the owner, or whoever may write the file.
  if (status.st_uid != geteuid() && access(path.c_str(), W_OK) != 0) return std::nullopt;
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  constexpr std::uint64_t kPart = std::uint64_t{1} << 30;  // mapped at a time, so that an address space limit suffices
  std::uint64_t cached = 0;
  std::vector<unsigned char> resident;
  for (std::uint64_t at = 0; at < bytes; at += kPart) {
    const std::uint64_t part = std::min(kPart, bytes - at);
    void* const mapped = mmap(nullptr, part, PROT_READ, MAP_SHARED, file.descriptor(), static_cast<off_t>(at));
    if (mapped == MAP_FAILED) return std::nullopt;  // NOLINT: a macro of the system
    resident.resize((part + page - 1) / page);
    const bool is_known = mincore(mapped, part, resident.data()) == 0;
    munmap(mapped, part);
    if (!is_known) return std::nullopt;
    for (std::size_t i = 0; i < resident.size(); ++i)
      if ((resident[i] & 1U) != 0) cached += std::min(page, part - i * page);
  }
  return cached;
}

CachedFiles cached_files(const fs::path& place) {
  CachedFiles files;
  std::error_code error;
  const auto add = [&](const fs::path& file) {
    if (fs::is_regular_file(file, error)) files.emplace(fs::weakly_canonical(file, error), cached_bytes(file));
  };
  add(place);
  for (fs::recursive_directory_iterator at(place, error), end; !error && at != end; at.increment(error))
    add(at->path());
  return files;
}

ModelFiles look_at_files(std::span<const fs::path> files, const CachedFiles& before) {
  ModelFiles model{.files = {files.begin(), files.end()}, .bytes = 0, .cached_bytes = 0};
  for (const fs::path& file : files) {
    std::error_code error;
    const std::uint64_t bytes = fs::file_size(file, error);
    if (error) fail("cannot read {}: {}", file.native(), error.message());
    model.bytes += bytes;
    const auto known = before.find(fs::weakly_canonical(file, error));
    const std::optional<std::uint64_t> cached = known != before.end() ? known->second : cached_bytes(file);
    model.cached_bytes = model.cached_bytes && cached ? std::optional(*model.cached_bytes + *cached) : std::nullopt;
  }
  return model;
}

}  // namespace headroom::doctor
