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

/// Why a request is not answered.
struct Refusal {
  int status = 0;        ///< of HTTP
  std::string sentence;  ///< for the person who sent it
};

/// What is served: "/output.mjpeg" is asked for with GET, and so on.
enum class LiveResource { kPage, kScript, kStyle, kIcon, kStatus, kInput, kOutput, kControls };
[[nodiscard]] std::optional<LiveResource> find_resource(std::string_view path);

/// Whether a request may be answered, which is asked before its body is read; nobody who sent one is trusted. Only pages
/// of this server may do anything: the host must be `bound` (is_own_host()), the origin the host's where there is one, and
/// what changes anything must come from such an origin, as JSON, with the token that only the page knows.
[[nodiscard]] std::optional<Refusal> check_request(const RequestHead& request, const LiveAddress& bound,
                                                   std::string_view token);

}  // namespace headroom
