#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace headroom {

/// The address at which the page of a live stream is served.
struct LiveAddress {
  std::string host = "127.0.0.1";  ///< an IPv4 or IPv6 address, as inet_ntop() writes it
  std::uint16_t port = 0;          ///< 0 selects a free port
  friend bool operator==(const LiveAddress&, const LiveAddress&) = default;
};

/// ":8080" and "localhost:8080" (this machine only), "192.168.1.5:8080", "0.0.0.0:8080" (all interfaces),
/// "[::1]:8080". Throws a usage Error for anything else, including other names.
[[nodiscard]] LiveAddress parse_live_address(std::string_view text);

/// "127.0.0.1:8080", "[::1]:8080": the authority in the browser's URL.
[[nodiscard]] std::string authority_of(const LiveAddress& address);

/// Whether only this machine can reach it.
[[nodiscard]] bool is_loopback(const LiveAddress& address);
/// Whether it means all addresses of the machine: 0.0.0.0 or [::].
[[nodiscard]] bool is_wildcard(const LiveAddress& address);

/// Whether a request with this Host header was meant for this address. DNS names controlled by others are never
/// accepted, since they may point at this machine (DNS rebinding). Accepted are "localhost", the bound address, and
/// for a wildcard any address. The port is not checked, because a tunnel (ssh -L) may use another one.
[[nodiscard]] bool is_own_host(std::string_view host, const LiveAddress& bound);

}  // namespace headroom
