#include "base/interrupt.hpp"

#include <cstddef>

namespace headroom {
namespace {

volatile std::sig_atomic_t came = 0;  // a signal handler can reach nothing else

void note(int signal) { came = signal; }

}  // namespace

Interruptible::Interruptible() {
  came = 0;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
}

Interruptible::~Interruptible() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

void Interruptible::check() {
  if (came != 0) throw Interrupted{came};
}

}  // namespace headroom
