#pragma once

#include "cli/live/address.hpp"

namespace headroom {

/// A descriptor that is closed with the object; none where it is negative.
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

/// A socket that waits for connections.
class Listener {
 public:
  /// Throws Error that says what stands in the way: a port that is in use, an address that is not this machine's.
  explicit Listener(const LiveAddress& address);

  /// What was bound, with the port that was free where any was asked for.
  [[nodiscard]] const LiveAddress& address() const noexcept { return address_; }

  /// The descriptor of the next connection, which is the caller's; -1 after stop().
  [[nodiscard]] int accept();
  /// From any thread: no further connection is accepted.
  void stop();

 private:
  LiveAddress address_;
  Descriptor socket_;
  Descriptor stop_event_;
};

}  // namespace headroom
