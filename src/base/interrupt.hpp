#pragma once

#include <array>
#include <csignal>

namespace headroom {

/// Signals that ask a program to end.
inline constexpr std::array<int, 3> kEndingSignals = {SIGINT, SIGTERM, SIGHUP};

/// Thrown by Interruptible::check(). Not a std::exception, so that only main() catches it.
struct Interrupted {
  int signal;
};

/// Starts a thread that handles all kEndingSignals of the process, and blocks them in the calling thread and in all
/// threads that it starts later. main() calls it before starting threads. Handlers must not run on compute threads:
/// the f32 matmul of oneDNN (2.6.3) keeps data below the stack pointer, which a handler would overwrite. Actions
/// are unchanged: a signal without a handler ends the process. A second call does nothing. Throws std::system_error
/// if no thread can be started.
void take_signals_on_own_thread();

/// Restores the calling thread's signal mask from before take_signals_on_own_thread(), for a child between fork()
/// and exec(). Async-signal-safe.
void restore_signal_mask() noexcept;

/// Ends the process with the signal, as if it had been neither blocked nor handled.
void end_by_signal(int signal) noexcept;

/// While it lives, SIGINT, SIGTERM and SIGHUP are deferred to check(), so that unfinished work can be undone. A
/// second signal ends the process at once. Ignored signals stay ignored. Only one object at a time.
class Interruptible {
 public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  /// Throws Interrupted if a signal has arrived.
  static void check();

 private:
  std::array<struct sigaction, kEndingSignals.size()> before_{};
};

}  // namespace headroom
