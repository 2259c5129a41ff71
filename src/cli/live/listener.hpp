#pragma once

#include "cli/live/address.hpp"

namespace headroom {

/// A socket that waits for connections.
class Listener {
 public:
  /// Throws Error that says what stands in the way: a port that is in use, an address that is not this machine's.
  explicit Listener(const LiveAddress& address);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// What was bound, with the port that was free where any was asked for.
  [[nodiscard]] const LiveAddress& address() const noexcept { return address_; }
  [[nodiscard]] int descriptor() const noexcept { return socket_; }

  /// The descriptor of the next connection, which is the caller's; -1 after stop().
  [[nodiscard]] int accept();
  /// From any thread: no further connection is accepted.
  void stop();

 private:
  LiveAddress address_;
  int socket_ = -1;
  int stop_event_ = -1;
};

}  // namespace headroom
