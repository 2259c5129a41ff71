#include "cli/live/connection.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace headroom {
namespace {

using Clock = std::chrono::steady_clock;

/// Waits until one of `events` or the end of the connection; false if the deadline passes first.
bool wait_until(int descriptor, short events, Clock::time_point deadline) {
  for (;;) {
    // Rounded up, so that it does not spin through the last millisecond.
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd waiting{.fd = descriptor, .events = events, .revents = 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(left, 3'600'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

}  // namespace

Connection::Connection(int descriptor, const ConnectionLimits& limits)
    : descriptor_(descriptor), limits_(limits), deadline_(Clock::now() + limits.request) {
  // A small send buffer: data buffered by the system for a slow client is outdated when it arrives.
  constexpr int kHeldBytes = 128 * 1024;
  ::setsockopt(descriptor_, SOL_SOCKET, SO_SNDBUF, &kHeldBytes, sizeof kHeldBytes);
}

Connection::~Connection() { ::close(descriptor_); }

bool Connection::fill_buffer() {
  const std::size_t most = std::min(sizeof buffer_, limits_.request_bytes - received_);
  if (most == 0) {
    reading_ = Reading::kTooLong;
    return false;
  }
  for (;;) {
    if (!wait_until(descriptor_, POLLIN, deadline_)) {
      reading_ = Reading::kTooLate;
      return false;
    }
    const ssize_t n = ::recv(descriptor_, buffer_, most, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (n <= 0) {
      reading_ = Reading::kEnded;
      return false;
    }
    buffered_ = static_cast<std::size_t>(n);
    taken_ = 0;
    received_ += buffered_;
    return true;
  }
}

std::size_t Connection::read(char* out, std::size_t bytes) {
  if (reading_ != Reading::kGoesOn || (taken_ == buffered_ && !fill_buffer())) return 0;
  const std::size_t n = std::min(bytes, buffered_ - taken_);
  std::copy_n(buffer_ + taken_, n, out);
  taken_ += n;
  return n;
}

bool Connection::write(std::string_view data) {
  has_written_ = true;
  while (!data.empty()) {
    const ssize_t n = ::send(descriptor_, data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      data.remove_prefix(static_cast<std::size_t>(n));
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    const bool is_full = n < 0 && errno == EAGAIN;
    if (!is_full || !wait_until(descriptor_, POLLOUT, Clock::now() + limits_.stall)) return false;
  }
  return true;
}

bool Connection::is_open() const {
  char byte = 0;
  const ssize_t n = ::recv(descriptor_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

void Connection::finish() {
  constexpr std::size_t kMostUnread = 1 << 20;
  ::shutdown(descriptor_, SHUT_WR);
  const Clock::time_point deadline = Clock::now() + limits_.farewell;
  for (std::size_t unread = 0; unread < kMostUnread && wait_until(descriptor_, POLLIN, deadline);) {
    const ssize_t n = ::recv(descriptor_, buffer_, sizeof buffer_, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return;
    unread += static_cast<std::size_t>(std::max<ssize_t>(n, 0));
  }
}

void send_and_close(int descriptor, std::string_view data) {
  (void)::send(descriptor, data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ::close(descriptor);
}

}  // namespace headroom
