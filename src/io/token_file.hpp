#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "base/files/file.hpp"

namespace headroom {

/// Token ids in llm.c's format (https://github.com/karpathy/llm.c, dev/data/data_common.py), version 1: a header of
/// 256 words of 32 bits, then an id of 16 bits for each token, all little-endian. The first three words are
/// 20240520, the version and the number of tokens. llm.c leaves the other words 0; here the next two are a hash of what
/// the tokens were made of.
class TokenFile {
 public:
  static constexpr std::int64_t kMostTokens = INT32_MAX;
  static constexpr std::int64_t kMostIds = 1 << 16;

  /// Throws Error if it is not a whole file of this format.
  [[nodiscard]] static TokenFile open(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_.path(); }
  [[nodiscard]] std::span<const std::uint16_t> ids() const noexcept { return ids_; }
  /// 0 if unknown.
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }

 private:
  explicit TokenFile(MappedFile file);

  MappedFile file_;
  std::span<const std::uint16_t> ids_;
  std::uint64_t hash_ = 0;
};

/// Writes such a file atomically. Throws Error if there are more than kMostTokens.
void write_token_file(const std::filesystem::path& path, std::span<const std::uint16_t> ids, std::uint64_t hash);

}  // namespace headroom
