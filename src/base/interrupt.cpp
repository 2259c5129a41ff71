#include "base/interrupt.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <system_error>

namespace headroom {
namespace {

std::atomic<int> came = 0;  // the only state that a signal handler may access
static_assert(std::atomic<int>::is_always_lock_free);

sigset_t mask_before;  // of the thread that called take_signals_on_own_thread()
bool has_own_thread = false;

void note(int signal) { came = signal; }

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kEndingSignals) sigaddset(&set, signal);
  return set;
}

/// The only thread of the process in which kEndingSignals are not blocked.
void* take_signals(void* /*argument*/) {
  pthread_sigmask(SIG_SETMASK, &mask_before, nullptr);
  while (true) ::pause();
}

}  // namespace

void take_signals_on_own_thread() {
  if (has_own_thread) return;
  // All signals are blocked while the thread is created, so that it handles none before it sets its own mask.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &mask_before);
  pthread_attr_t attributes;
  int error = pthread_attr_init(&attributes);
  if (error == 0) {
    constexpr std::size_t kStackBytes = std::size_t{256} << 10;  // the default reserves megabytes of address space
    pthread_attr_setstacksize(&attributes, kStackBytes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_t thread{};
    error = pthread_create(&thread, &attributes, take_signals, nullptr);
    pthread_attr_destroy(&attributes);
  }
  sigset_t without = mask_before;
  if (error == 0)
    for (const int signal : kEndingSignals) sigaddset(&without, signal);
  pthread_sigmask(SIG_SETMASK, &without, nullptr);
  if (error != 0) throw std::system_error(error, std::generic_category(), "the thread that takes signals");
  has_own_thread = true;
}

void restore_signal_mask() noexcept {
  if (has_own_thread) sigprocmask(SIG_SETMASK, &mask_before, nullptr);
}

void end_by_signal(int signal) noexcept {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  const sigset_t set = ending_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  std::raise(signal);
}

Interruptible::Interruptible() {
  came = 0;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART | SA_ONSTACK | static_cast<int>(SA_RESETHAND);
  for (std::size_t i = 0; i < kEndingSignals.size(); ++i) {
    sigaction(kEndingSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) sigaction(kEndingSignals[i], &action, nullptr);
  }
}

Interruptible::~Interruptible() {
  for (std::size_t i = 0; i < kEndingSignals.size(); ++i) sigaction(kEndingSignals[i], &before_[i], nullptr);
}

void Interruptible::check() {
  if (const int signal = came; signal != 0) throw Interrupted{signal};
}

}  // namespace headroom
