#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"

/// Included by *_test.cpp only.
namespace headroom::test {

/// A client that sends arbitrary bytes to a port of this machine.
class Client {
 public:
  explicit Client(std::uint16_t port, int receive_buffer = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    HR_CHECK_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Bytes that the server no longer accepts are dropped.
  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  void end_sending() { ::shutdown(socket_, SHUT_WR); }

  /// Reads everything until the server closes the connection.
  std::string read_all() {
    while (read_more()) {
    }
    return std::exchange(unread_, {});
  }
  /// Reads up to and including `end`; returns all data if it never arrives.
  std::string read_until(std::string_view end) {
    std::size_t found = unread_.find(end);
    while (found == std::string::npos && read_more()) found = unread_.find(end);
    return found == std::string::npos ? std::exchange(unread_, {}) : take(found + end.size());
  }
  std::string read_bytes(std::size_t bytes) {
    while (unread_.size() < bytes && read_more()) {
    }
    return take(std::min(bytes, unread_.size()));
  }

 private:
  bool read_more() {
    char buffer[16384];
    const ssize_t n = ::recv(socket_, buffer, sizeof buffer, 0);
    if (n <= 0) return false;
    unread_.append(buffer, static_cast<std::size_t>(n));
    return true;
  }
  std::string take(std::size_t bytes) {
    std::string out = unread_.substr(0, bytes);
    unread_.erase(0, bytes);
    return out;
  }

  int socket_;
  std::string unread_;
};

}  // namespace headroom::test
