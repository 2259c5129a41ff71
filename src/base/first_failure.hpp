#pragma once

#include <atomic>
#include <exception>

namespace headroom {

/// Passes an exception from a team of threads to the thread that waits for them, since none may leave its thread.
class FirstFailure {
 public:
  /// Calls work(), and keeps its exception if it is the first.
  template <typename Work>
  void guard(const Work& work) noexcept {
    try {
      work();
    } catch (...) {
      if (!is_kept_.test_and_set()) failure_ = std::current_exception();
    }
  }

  /// Rethrows the kept exception, if any. To be called when all threads are done.
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::atomic_flag is_kept_;
  std::exception_ptr failure_;
};

}  // namespace headroom
