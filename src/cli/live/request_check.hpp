#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "cli/live/address.hpp"
#include "cli/live/request_head.hpp"

namespace headroom {

/// The largest body of a request, in bytes.
inline constexpr std::size_t kMostBodyBytes = 16 * 1024;

/// The header that carries the token of the page, in lower case.
inline constexpr std::string_view kTokenHeader = "x-headroom-token";

/// The reason for refusing a request.
struct Refusal {
  int status = 0;        ///< HTTP status
  std::string sentence;  ///< for the person who sent the request
};

/// Served resources: "/output.mjpeg" with GET, and so on.
enum class LiveResource { kPage, kScript, kStyle, kIcon, kStatus, kInput, kOutput, kControls };
[[nodiscard]] std::optional<LiveResource> find_resource(std::string_view path);

/// Checks whether a request may be answered, before its body is read. Clients are not trusted. Only pages of this
/// server have access: the host must be `bound` (is_own_host()), and the origin, if present, must be the host's.
/// Requests that change anything must have such an origin, a JSON body, and the token that only the page knows.
[[nodiscard]] std::optional<Refusal> check_request(const RequestHead& request, const LiveAddress& bound,
                                                   std::string_view token);

}  // namespace headroom
