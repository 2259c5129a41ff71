#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace headroom {

/// The head of a request, everything before its body.
struct RequestHead {
  std::string method;                                                  ///< "GET"
  std::string path;                                                    ///< "/status", as sent, without a query
  std::multimap<std::string, std::string, std::less<>> header_fields;  ///< by name in lower case
};

/// Parses the head of an HTTP/1.1 or 1.0 request (RFC 9112, 3 and 5; RFC 9110, 5.5 and 5.6.2): everything before
/// the empty line. `head` ends with the line end of its last line. Strict: anything malformed or ambiguous is
/// rejected (empty result).
[[nodiscard]] std::optional<RequestHead> parse_request_head(std::string_view head);

}  // namespace headroom
