#include "kernels/vendor/nvrtc/cubin_cache.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/files/hash.hpp"
#include "base/files/user_cache.hpp"

// A file is a Header, the key and the machine code. The whole key is stored, so that two keys with the same hash
// are not confused.

namespace headroom::nvrtc {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "headroom.cubin/1";
constexpr std::string_view kExtension = ".cubin";

struct Header {
  char magic[16];
  std::uint64_t key_bytes;
  std::uint64_t cubin_bytes;
  std::uint64_t hash;  ///< of both
};
static_assert(kMagic.size() == sizeof(Header::magic) && sizeof(Header) == 40);

std::uint64_t hash_of(std::string_view key, std::string_view cubin) { return Hasher().add(key).add(cubin).digest(); }

/// Whether the folder exists and only this user can write to it.
bool is_private(const fs::path& folder) {
  struct stat status {};
  return ::stat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// Makes the folder if it is missing; returns whether it exists and is private.
bool make_private(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder.parent_path(), error);
  if (error) return false;
  static_cast<void>(::mkdir(folder.c_str(), S_IRWXU));  // it may be there already
  return is_private(folder);
}

/// The machine code in the content of a file of that key.
std::optional<std::string> parse(const std::string& content, std::string_view key) {
  Header header;
  if (content.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, content.data(), sizeof(header));
  const std::string_view body = std::string_view(content).substr(sizeof(header));
  if (std::string_view(header.magic, sizeof(header.magic)) != kMagic) return std::nullopt;
  if (header.key_bytes != key.size() || body.size() < key.size()) return std::nullopt;
  const std::string_view cubin = body.substr(key.size());
  if (header.cubin_bytes != cubin.size() || body.substr(0, key.size()) != key) return std::nullopt;
  if (header.hash != hash_of(key, cubin)) return std::nullopt;
  return std::string(cubin);
}

struct KeptFile {
  fs::file_time_type used;
  std::uint64_t bytes;
  fs::path path;
};

/// Those of the cache, temporary ones too: of a process that was killed they stay.
std::vector<KeptFile> list_files(const fs::path& folder) {
  std::vector<KeptFile> files;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (entry->path().filename().native().find(kExtension) == std::string::npos) continue;
    std::error_code gone;  // by another process
    if (!entry->is_regular_file(gone) || entry->is_symlink(gone)) continue;
    const std::uint64_t bytes = entry->file_size(gone);
    if (gone) continue;
    const fs::file_time_type used = entry->last_write_time(gone);
    if (!gone) files.push_back({used, bytes, entry->path()});
  }
  return files;
}

}  // namespace

CubinCache::CubinCache(fs::path folder, std::uint64_t limit_bytes)
    : folder_(std::move(folder)), limit_bytes_(limit_bytes) {}

std::optional<CubinCache> CubinCache::of_user() {
  std::optional<fs::path> folder = user_cache_folder("kernels");
  if (!folder) return std::nullopt;
  return CubinCache(std::move(*folder));
}

fs::path CubinCache::file_of(std::string_view key) const {
  return folder_ / Hasher().add(key).hex().append(kExtension);
}

std::optional<std::string> CubinCache::find(std::string_view key) const {
  const fs::path file = file_of(key);
  std::error_code error;
  if (!is_private(folder_) || !fs::is_regular_file(file, error)) return std::nullopt;
  try {
    std::optional<std::string> cubin = parse(read_file(file), key);
    if (cubin) fs::last_write_time(file, fs::file_time_type::clock::now(), error);  // used now; it may have gone since
    return cubin;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void CubinCache::store(std::string_view key, std::string_view cubin) const {
  Header header{.magic = {}, .key_bytes = key.size(), .cubin_bytes = cubin.size(), .hash = hash_of(key, cubin)};
  std::memcpy(header.magic, kMagic.data(), sizeof(header.magic));
  const std::uint64_t bytes = sizeof(header) + key.size() + cubin.size();
  if (bytes > limit_bytes_ || !make_private(folder_)) return;
  const fs::path path = file_of(key);
  try {
    AtomicFile file(path, bytes);
    file.write(std::as_bytes(std::span(&header, 1)));
    file.write(key);
    file.write(cubin);
    file.commit();
  } catch (const Error&) {  // a full disk, no permission: compiled again next time
    return;
  }
  remove_oldest(path);
}

/// Until the rest is within the limit. Others may do the same at once: files already gone are counted as removed.
void CubinCache::remove_oldest(const fs::path& except) const {
  std::vector<KeptFile> files = list_files(folder_);
  std::uint64_t bytes = 0;
  for (const KeptFile& file : files) bytes += file.bytes;
  if (bytes <= limit_bytes_) return;
  std::ranges::sort(files, {}, &KeptFile::used);
  for (const KeptFile& file : files) {
    if (file.path == except) continue;
    std::error_code error;
    fs::remove(file.path, error);
    if (!error) bytes -= file.bytes;
    if (bytes <= limit_bytes_) return;
  }
}

}  // namespace headroom::nvrtc
