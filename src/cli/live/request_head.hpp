#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace headroom {

/// What a request says before its body.
struct RequestHead {
  std::string method;                                                  ///< "GET"
  std::string path;                                                    ///< "/status", as it was sent, without a query
  std::multimap<std::string, std::string, std::less<>> header_fields;  ///< by name in lower case
};

/// The head of a request of HTTP/1.1 or 1.0 (RFC 9112, 3 and 5; RFC 9110, 5.5 and 5.6.2), all before the empty line: `head` ends with the line end of its
/// last line. Nothing where it is none to the letter: what might be read in two ways is not read.
[[nodiscard]] std::optional<RequestHead> parse_request_head(std::string_view head);

}  // namespace headroom
