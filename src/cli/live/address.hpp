#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace headroom {

/// Where the page of a live stream is served.
struct LiveAddress {
  std::string host = "127.0.0.1";  ///< an IPv4 or IPv6 address, as inet_ntop() writes it
  std::uint16_t port = 0;          ///< 0 asks for one that is free
  friend bool operator==(const LiveAddress&, const LiveAddress&) = default;
};

/// ":8080" and "localhost:8080" (this machine alone), "192.168.1.5:8080", "0.0.0.0:8080" (whoever reaches it),
/// "[::1]:8080". Throws a usage Error for anything else, other names too.
[[nodiscard]] LiveAddress parse_live_address(std::string_view text);

/// "127.0.0.1:8080", "[::1]:8080": what a browser asks for.
[[nodiscard]] std::string authority_of(const LiveAddress& address);

/// Whether this machine alone can reach it.
[[nodiscard]] bool is_loopback(const LiveAddress& address);
/// Whether it stands for all addresses of the machine: 0.0.0.0 or [::].
[[nodiscard]] bool is_wildcard(const LiveAddress& address);

/// Whether a browser that sends `host` (the header of a request) meant this address. A name that somebody else hands out,
/// and may point at this machine when he likes (DNS rebinding), is never one: that leaves "localhost", the address that
/// was bound, and for a wildcard any address. The port is free, because a tunnel (ssh -L) may end in another.
[[nodiscard]] bool is_own_host(std::string_view host, const LiveAddress& bound);

}  // namespace headroom
