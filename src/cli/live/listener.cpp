#include "cli/live/listener.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/error.hpp"

namespace headroom {
namespace {

union SocketAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

/// The address for system calls, and its size.
std::pair<SocketAddress, socklen_t> socket_address(const LiveAddress& address) {
  SocketAddress out{};
  if (::inet_pton(AF_INET, address.host.c_str(), &out.v4.sin_addr) == 1) {
    out.v4.sin_family = AF_INET;
    out.v4.sin_port = htons(address.port);
    return {out, sizeof out.v4};
  }
  out = {};
  HR_CHECK_EQ(::inet_pton(AF_INET6, address.host.c_str(), &out.v6.sin6_addr), 1);
  out.v6.sin6_family = AF_INET6;
  out.v6.sin6_port = htons(address.port);
  return {out, sizeof out.v6};
}

[[noreturn]] void fail_to_serve(const LiveAddress& address) {
  const int reason = errno;
  const std::string where = authority_of(address);
  if (reason == EADDRINUSE)
    fail("cannot serve the page on {}: another program has port {}; choose another, or 0 for one that is free", where,
         address.port);
  if (reason == EADDRNOTAVAIL) fail("cannot serve the page on {}: this machine has no address {}", where, address.host);
  fail("cannot serve the page on {}: {}", where, std::strerror(reason));
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

Listener::Listener(const LiveAddress& address)
    : address_(address),
      socket_(::socket(socket_address(address).first.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
      stop_event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  const auto [name, name_bytes] = socket_address(address);
  const int socket = socket_.number();
  if (socket < 0 || stop_event_.number() < 0) fail_to_serve(address);
  // Allows lingering connections of an earlier run, but not another program that listens.
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(socket, &name.any, name_bytes) != 0 || ::listen(socket, 16) != 0) fail_to_serve(address);
  SocketAddress bound{};
  socklen_t bound_bytes = sizeof bound;
  if (::getsockname(socket, &bound.any, &bound_bytes) != 0) fail_to_serve(address);
  address_.port = ntohs(bound.any.sa_family == AF_INET6 ? bound.v6.sin6_port : bound.v4.sin_port);
}

int Listener::accept() {
  constexpr int kUntilOneMayBeClosed = 50;  // ms
  bool is_out_of_descriptors = false;
  for (;;) {
    std::array<pollfd, 2> waiting = {{{.fd = stop_event_.number(), .events = POLLIN, .revents = 0},
                                      {.fd = socket_.number(), .events = POLLIN, .revents = 0}}};
    if (is_out_of_descriptors) waiting[1].fd = -1;
    ::poll(waiting.data(), waiting.size(), is_out_of_descriptors ? kUntilOneMayBeClosed : -1);
    if (waiting[0].revents != 0) return -1;
    const int connection = ::accept4(socket_.number(), nullptr, nullptr, SOCK_CLOEXEC);
    if (connection >= 0) return connection;
    is_out_of_descriptors = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
  }
}

void Listener::stop() {
  const std::uint64_t one = 1;
  (void)!::write(stop_event_.number(), &one, sizeof one);
}

}  // namespace headroom
