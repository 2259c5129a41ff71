#pragma once

#include <array>
#include <csignal>

namespace headroom {

/// Signals that ask a program to end.
inline constexpr std::array<int, 3> kEndingSignals = {SIGINT, SIGTERM, SIGHUP};

/// Thrown by Interruptible::check(). No std::exception, so that only main() takes it for what it is.
struct Interrupted {
  int signal;
};

/// Starts a thread that takes all kEndingSignals of the process, and blocks them in the calling thread and all that it
/// starts afterwards: main() calls it before there is another thread. A handler that runs on a thread which computes
/// would overwrite data of oneDNN (2.6.3), whose f32 matmul keeps some below the stack pointer. Actions are unchanged:
/// a signal that nobody handles ends the process. A second call does nothing. Throws std::system_error where no thread
/// can be started.
void take_signals_on_own_thread();

/// Gives the calling thread the signal mask that it had before take_signals_on_own_thread(), for a child between fork()
/// and exec(). Async-signal-safe.
void restore_signal_mask() noexcept;

/// Ends the process by the signal, as if it had been neither blocked nor handled.
void end_by_signal(int signal) noexcept;

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
  std::array<struct sigaction, kEndingSignals.size()> before_{};
};

}  // namespace headroom
