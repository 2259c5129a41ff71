#include "base/files/gzip.hpp"

#include <zlib.h>

#include <algorithm>

#include "base/error.hpp"

namespace headroom {
namespace {

/// A zlib inflate stream, ended by its destructor.
class Inflater {
 public:
  explicit Inflater(std::string_view bytes) {
    constexpr int kGzipOnly = 16;
    HR_CHECK_EQ(inflateInit2(&stream_, kGzipOnly + MAX_WBITS), Z_OK);
    stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));  // zlib only reads it
    stream_.avail_in = static_cast<uInt>(bytes.size());
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Appends up to `most` bytes to `text`; returns whether more data follows.
  bool append(std::string& text, std::size_t most) {
    const std::size_t before = text.size();
    text.resize(before + most);
    stream_.next_out = reinterpret_cast<Bytef*>(text.data() + before);
    stream_.avail_out = static_cast<uInt>(most);
    status_ = inflate(&stream_, Z_NO_FLUSH);
    text.resize(text.size() - stream_.avail_out);
    return status_ == Z_OK && text.size() > before;
  }
  [[nodiscard]] bool is_complete() const { return status_ == Z_STREAM_END; }

 private:
  z_stream stream_ = {};
  int status_ = Z_OK;
};

}  // namespace

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

std::string gunzip(std::string_view bytes, std::size_t most_bytes, std::string_view path) {
  constexpr std::size_t kStep = std::size_t{1} << 20;
  Inflater inflater(bytes);
  std::string text;
  while (inflater.append(text, kStep))
    if (text.size() > most_bytes) break;
  if (text.size() > most_bytes) fail("{} unpacks to more than {} bytes", path, most_bytes);
  if (!inflater.is_complete()) fail("{} is cut off or no gzip file", path);
  return text;
}

}  // namespace headroom
