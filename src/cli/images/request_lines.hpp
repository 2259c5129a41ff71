#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>

namespace headroom {

/// The most bytes of a request line: a hundred times the text that any model reads.
inline constexpr std::size_t kMostRequestBytes = std::size_t{1} << 20;

enum class RequestLine : std::uint8_t { kEnd, kWhole, kTooLong };

/// Reads the next line of `in` without its line feed. Bytes beyond kMostRequestBytes are skipped and not stored, so
/// that memory does not grow with untrusted input; `line` then has the first part.
[[nodiscard]] RequestLine read_request_line(std::istream& in, std::string& line);

}  // namespace headroom
