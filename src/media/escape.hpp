#pragma once

#include <csetjmp>
#include <cstdio>

namespace headroom {

/// Why a picture that is cut off cannot be read.
inline constexpr const char* kCutOff = "it ends too early";

/// Leaves a C library whose error handlers may neither return nor throw (libpng, libjpeg). The code inside must not
/// have objects with destructors, because leave() jumps over them.
class Escape {
 public:
  /// Runs the steps. Returns false if leave() was called in the meantime, at any depth of the library.
  template <class Steps>
  [[nodiscard]] bool run(const Steps& steps) {
    if (setjmp(place_) != 0) return false;
    steps();
    return true;
  }

  /// Ends the current run().
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
