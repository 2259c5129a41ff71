#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace headroom {

/// Whether `bytes` begin as gzip's do (RFC 1952).
[[nodiscard]] bool is_gzip(std::string_view bytes);
/// What gzip bytes unpack to. Throws Error, naming `path`, for what is no gzip, is cut off, or unpacks to more than
/// `most_bytes`.
[[nodiscard]] std::string gunzip(std::string_view bytes, std::size_t most_bytes, std::string_view path);

}  // namespace headroom
