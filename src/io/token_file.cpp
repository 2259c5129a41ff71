#include "io/token_file.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/error.hpp"

namespace headroom {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::int32_t kTokenMagic = 20240520, kTokenVersion = 1;
using TokenHeader = std::array<std::int32_t, 256>;

}  // namespace

TokenFile TokenFile::open(const std::filesystem::path& path) { return TokenFile(MappedFile(path)); }

TokenFile::TokenFile(MappedFile file) : file_(std::move(file)) {
  const std::string& name = file_.path().native();
  TokenHeader header{};
  if (file_.size() < sizeof header)
    fail("{}: is no file of tokens: it has {} bytes, expected a header of {}", name, file_.size(), sizeof header);
  std::memcpy(header.data(), file_.bytes().data(), sizeof header);
  if (header[0] != kTokenMagic)
    fail("{}: is no file of tokens: it begins with {}, expected {}", name, header[0], kTokenMagic);
  if (header[1] != kTokenVersion)
    fail("{}: has the version {}, expected {}, ids of 16 bits", name, header[1], kTokenVersion);
  const std::uint64_t bytes = file_.size() - sizeof header;
  if (header[2] < 0 || bytes != 2 * static_cast<std::uint64_t>(header[2]))
    fail("{}: its header says {} tokens of 2 bytes, but {} bytes follow it", name, header[2], bytes);
  ids_ = {reinterpret_cast<const std::uint16_t*>(file_.bytes().data() + sizeof header),
          static_cast<std::size_t>(header[2])};
  std::memcpy(&hash_, &header[3], sizeof hash_);
}

void write_token_file(const std::filesystem::path& path, std::span<const std::uint16_t> ids, std::uint64_t hash) {
  if (ids.size() > static_cast<std::size_t>(TokenFile::kMostTokens))
    fail("{}: {} tokens are too many for one file, expected at most {}", path.native(), ids.size(),
         TokenFile::kMostTokens);
  TokenHeader header{kTokenMagic, kTokenVersion, static_cast<std::int32_t>(ids.size())};
  std::memcpy(&header[3], &hash, sizeof hash);
  AtomicFile file(path, sizeof header + ids.size_bytes());
  file.write(std::as_bytes(std::span(header)));
  file.write(std::as_bytes(ids));
  file.commit();
}

}  // namespace headroom
