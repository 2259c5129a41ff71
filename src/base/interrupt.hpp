#pragma once

#include <array>
#include <csignal>

namespace headroom {

/// Thrown by Interruptible::check(). No std::exception, so that only main() takes it for what it is.
struct Interrupted {
  int signal;
};

/// While it lives, SIGINT, SIGTERM and SIGHUP wait for check(), so that what was begun can be undone. A second one ends
/// the process at once; what was ignored before stays ignored. One at a time.
class Interruptible {
 public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  /// Throws Interrupted where a signal has come.
  static void check();

 private:
  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> before_{};
};

}  // namespace headroom
