#pragma once

#include <atomic>
#include <exception>

namespace headroom {

/// Carries an exception from the threads of a team to the one that waits for them: none may leave a thread.
class FirstFailure {
 public:
  /// Calls work(), and keeps what it throws if nothing was kept before.
  template <typename Work>
  void guard(const Work& work) noexcept {
    try {
      work();
    } catch (...) {
      if (!is_kept_.test_and_set()) failure_ = std::current_exception();
    }
  }

  /// Throws what was kept, if anything. Once all threads are done.
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::atomic_flag is_kept_;
  std::exception_ptr failure_;
};

}  // namespace headroom
