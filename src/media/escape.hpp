#pragma once

#include <csetjmp>
#include <cstdio>

namespace headroom {

/// The way out of a C library whose error handlers may neither return nor throw (libpng, libjpeg). What runs inside
/// holds nothing that has a destructor, because leave() jumps over it.
class Escape {
 public:
  /// False where leave() was called meanwhile, from any depth of the library.
  template <class Steps>
  [[nodiscard]] bool run(const Steps& steps) {
    if (setjmp(place_) != 0) return false;
    steps();
    return true;
  }

  /// Ends the run() that goes on.
  [[noreturn]] void leave(const char* reason) noexcept {
    std::snprintf(reason_, sizeof(reason_), "%s", reason);
    std::longjmp(place_, 1);
  }
  [[nodiscard]] const char* reason() const noexcept { return reason_; }

 private:
  std::jmp_buf place_;
  char reason_[256] = "";
};

}  // namespace headroom
