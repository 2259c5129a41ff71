#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace headroom {

/// Whether `bytes` begin with the gzip signature (RFC 1952).
[[nodiscard]] bool is_gzip(std::string_view bytes);
/// Decompresses gzip data. Throws Error, naming `path`, for data that is not gzip, is cut off, or decompresses to
/// more than `most_bytes`.
[[nodiscard]] std::string gunzip(std::string_view bytes, std::size_t most_bytes, std::string_view path);

}  // namespace headroom
