#include "io/idx_file.hpp"

#include <cstddef>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/files/gzip.hpp"

namespace headroom {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;
constexpr std::size_t kWord = 4;

std::uint8_t byte_at(std::string_view text, std::size_t at) { return static_cast<std::uint8_t>(text[at]); }

}  // namespace

IdxArray read_idx_file(const std::filesystem::path& path) {
  std::string text = read_file(path, {.most_bytes = kMostBytes});
  if (is_gzip(text)) text = gunzip(text, kMostBytes, path.native());
  if (text.size() < kWord || !text.starts_with(std::string_view("\0\0\x08", 3)))
    fail("{}: is no file of bytes in idx format, which begins with the bytes 0, 0, 8", path.native());
  IdxArray array;
  const std::size_t axes = byte_at(text, 3), header = kWord * (1 + axes);
  if (axes == 0 || text.size() < header) fail("{}: the header of {} axes is cut off", path.native(), axes);
  std::size_t elements = 1;
  for (std::size_t at = kWord; at < header; at += kWord) {
    std::size_t extent = 0;
    for (std::size_t i = 0; i < kWord; ++i) extent = extent << 8U | byte_at(text, at + i);
    if (extent == 0 || extent > kMostBytes / elements)
      fail("{}: axis {} has the extent {}, expected one that the file can hold", path.native(), at / kWord, extent);
    elements *= extent;
    array.extents.push_back(static_cast<std::int64_t>(extent));
  }
  if (text.size() != header + elements)
    fail("{}: has {} bytes, expected {} of its header and {} elements", path.native(), text.size(), header, elements);
  text.erase(0, header);
  array.bytes = std::move(text);
  return array;
}

}  // namespace headroom
