#include "cli/live/address.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/error.hpp"

namespace headroom {
namespace {

constexpr std::string_view kLocalhost = "localhost";

std::optional<std::uint16_t> read_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return port;
}

/// An address as inet_ntop() writes it, so that equal addresses are equal texts.
std::optional<std::string> read_ip(std::string_view text, int family) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  std::array<char, INET6_ADDRSTRLEN> name{};
  if (::inet_pton(family, std::string(text).c_str(), bytes.data()) != 1) return std::nullopt;
  if (::inet_ntop(family, bytes.data(), name.data(), static_cast<socklen_t>(name.size())) == nullptr)
    return std::nullopt;
  return name.data();
}

/// Splits "HOST:PORT" or "HOST"; an IPv6 address is in brackets.
struct HostAndPort {
  std::string_view host;
  std::optional<std::string_view> port;
};
HostAndPort split_authority(std::string_view text) {
  const std::size_t after_host = text.starts_with('[') ? text.find(']') : 0;
  const std::size_t colon = after_host == std::string_view::npos ? after_host : text.find(':', after_host);
  if (colon == std::string_view::npos) return {.host = text, .port = std::nullopt};
  return {.host = text.substr(0, colon), .port = text.substr(colon + 1)};
}

/// The address of a host; empty for a name.
std::optional<std::string> read_host(std::string_view host) {
  if (host.starts_with('[') && host.ends_with(']')) return read_ip(host.substr(1, host.size() - 2), AF_INET6);
  return read_ip(host, AF_INET);
}

bool is_localhost(std::string_view host) {
  return std::ranges::equal(host, kLocalhost, [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
}

}  // namespace

LiveAddress parse_live_address(std::string_view text) {
  const auto [host, port_text] = split_authority(text);
  const std::optional<std::uint16_t> port = port_text ? read_port(*port_text) : std::nullopt;
  if (!port)
    fail_usage(
        "--live is '{}': expected :PORT or ADDRESS:PORT, such as :8080, with a port from 0 (one that is free) to 65535",
        text);
  if (host.empty() || is_localhost(host)) return {.port = *port};
  const std::optional<std::string> ip = read_host(host);
  if (!ip)
    fail_usage(
        "--live is '{}': '{}' is no address, expected one of this machine, such as 192.168.1.5, [::1] or 0.0.0.0 for "
        "all",
        text, host);
  return {.host = *ip, .port = *port};
}

std::string authority_of(const LiveAddress& address) {
  const bool is_v6 = address.host.find(':') != std::string::npos;
  return is_v6 ? fmt::format("[{}]:{}", address.host, address.port) : fmt::format("{}:{}", address.host, address.port);
}

bool is_loopback(const LiveAddress& address) { return address.host.starts_with("127.") || address.host == "::1"; }

bool is_wildcard(const LiveAddress& address) { return address.host == "0.0.0.0" || address.host == "::"; }

bool is_own_host(std::string_view host, const LiveAddress& bound) {
  const auto [name, port_text] = split_authority(host);
  if (port_text && !read_port(*port_text)) return false;
  if (is_localhost(name)) return true;
  const std::optional<std::string> ip = read_host(name);
  return ip && (is_wildcard(bound) || *ip == bound.host);
}

}  // namespace headroom
