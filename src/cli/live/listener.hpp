#pragma once

#include "cli/live/address.hpp"

namespace headroom {

/// A descriptor that is closed with the object; negative for none.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int number() const noexcept { return number_; }

 private:
  int number_;
};

/// A listening socket.
class Listener {
 public:
  /// Throws Error with the reason: a port in use, or an address that is not this machine's.
  explicit Listener(const LiveAddress& address);

  /// The bound address, with the actual port if any free one was requested.
  [[nodiscard]] const LiveAddress& address() const noexcept { return address_; }

  /// The descriptor of the next connection, owned by the caller; -1 after stop().
  [[nodiscard]] int accept();
  /// Stops accepting connections. Thread-safe.
  void stop();

 private:
  LiveAddress address_;
  Descriptor socket_;
  Descriptor stop_event_;
};

}  // namespace headroom
