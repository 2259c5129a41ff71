#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace headroom::nvrtc {

/// Machine code that was compiled before, a file for each kernel, in a folder that only the user may write, because
/// its contents are run. The cache only saves time: a file that cannot be read or written, or is malformed, counts as
/// absent. Threads and processes may share a folder.
class CubinCache {
 public:
  static constexpr std::uint64_t kLimitBytes = std::uint64_t{256} << 20;

  /// Files in `folder`, which need not exist, take up to `limit_bytes` in all: the least recently used are deleted.
  /// A folder that another user owns or can write to is not used.
  explicit CubinCache(std::filesystem::path folder, std::uint64_t limit_bytes = kLimitBytes);
  /// In ${XDG_CACHE_HOME:-~/.cache}/headroom/kernels. Nothing if neither variable names a folder.
  [[nodiscard]] static std::optional<CubinCache> of_user();

  /// The machine code under `key`, which names all that it depends on.
  [[nodiscard]] std::optional<std::string> find(std::string_view key) const;
  /// Keeps `cubin`; its file appears whole or not at all.
  void store(std::string_view key, std::string_view cubin) const;

  /// The file that keeps the machine code of `key`.
  [[nodiscard]] std::filesystem::path file_of(std::string_view key) const;

 private:
  void remove_oldest(const std::filesystem::path& except) const;

  std::filesystem::path folder_;
  std::uint64_t limit_bytes_;
};

}  // namespace headroom::nvrtc
