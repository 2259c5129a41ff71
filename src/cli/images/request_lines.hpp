#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>

namespace headroom {

/// The most bytes of a line of requests: a hundred times what any model reads of a text.
inline constexpr std::size_t kMostRequestBytes = std::size_t{1} << 20;

enum class RequestLine : std::uint8_t { kEnd, kWhole, kTooLong };

/// Reads the next line of `in` without its line feed. What a line has beyond kMostRequestBytes is read past and never
/// held, so that memory does not grow with what strangers send; `line` then is its front.
[[nodiscard]] RequestLine read_request_line(std::istream& in, std::string& line);

}  // namespace headroom
