#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace headroom::nvrtc {

/// Machine code that was compiled before, a file for each kernel, in a folder that is the user's alone: what lies there
/// is run. It only saves time: where a file cannot be read, is not what it should be or cannot be written, it is as if
/// there were none. Threads and processes may share a folder.
class CubinCache {
 public:
  static constexpr std::uint64_t kLimitBytes = std::uint64_t{256} << 20;

  /// Files in `folder`, which need not exist, take up to `limit_bytes` in all: those that were not used for longest go.
  /// A folder that another user owns or can write to is not used.
  explicit CubinCache(std::filesystem::path folder, std::uint64_t limit_bytes = kLimitBytes);
  /// In ${XDG_CACHE_HOME:-~/.cache}/headroom/kernels. Nothing where neither variable names a place.
  [[nodiscard]] static std::optional<CubinCache> of_user();

  /// What is kept under `key`, all that the machine code depends on.
  [[nodiscard]] std::optional<std::string> find(std::string_view key) const;
  /// Keeps `cubin`; its file appears whole or not at all.
  void store(std::string_view key, std::string_view cubin) const;

  /// Where the machine code of `key` is kept.
  [[nodiscard]] std::filesystem::path file_of(std::string_view key) const;

 private:
  void remove_oldest(const std::filesystem::path& except) const;

  std::filesystem::path folder_;
  std::uint64_t limit_bytes_;
};

}  // namespace headroom::nvrtc
