#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace headroom {

/// The program's exit codes, as documented in `docs/commands.md`.
enum class ExitCode : int { kOk = 0, kError = 1, kUsage = 2, kRegression = 3, kInconclusive = 4 };

/// A failure that the user can act on. The message is one sentence that names the file or option, the given value
/// and the expected one. It is printed to stderr unchanged.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, ExitCode code = ExitCode::kError)
      : std::runtime_error(message), code_(code) {}
  [[nodiscard]] ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

/// Throws an Error for a problem of the environment: a file, a checkpoint, a device. Exit code 1.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws an Error for a problem of the request: an option, a switch, a size. Exit code 2.
template <typename... Args>
[[noreturn]] void fail_usage(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...), ExitCode::kUsage);
}

namespace detail {
/// Throws std::logic_error with the source location and the failed condition. Not inlined, to keep checks small.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& values);
}  // namespace detail

}  // namespace headroom

/// Checks an invariant of the program itself. A failure is a bug here, never bad input.
#define HR_CHECK(condition)                                                 \
  do {                                                                      \
    if (!(condition)) [[unlikely]]                                          \
      ::headroom::detail::check_failed(__FILE__, __LINE__, #condition, {}); \
  } while (false)

#define HR_CHECK_OP(a, op, b)                                                                                       \
  do {                                                                                                              \
    const auto& hr_a = (a);                                                                                         \
    const auto& hr_b = (b);                                                                                         \
    if (!(hr_a op hr_b)) [[unlikely]]                                                                               \
      ::headroom::detail::check_failed(__FILE__, __LINE__, #a " " #op " " #b, fmt::format("{} vs {}", hr_a, hr_b)); \
  } while (false)

#define HR_CHECK_EQ(a, b) HR_CHECK_OP(a, ==, b)
#define HR_CHECK_LT(a, b) HR_CHECK_OP(a, <, b)
#define HR_CHECK_LE(a, b) HR_CHECK_OP(a, <=, b)
