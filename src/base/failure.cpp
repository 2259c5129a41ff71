#include "base/failure.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <new>
#include <system_error>

#include "base/error.hpp"

namespace headroom {

std::string sentence_of(const std::exception& error) {
  if (dynamic_cast<const Error*>(&error) != nullptr) return error.what();
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return "out of memory: the system, a control group or a limit of this process (ulimit -v, -d) has no more";
  if (const auto* const of_file = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return fmt::format("cannot use {}: {}", of_file->path1().native(), of_file->code().message());
  // Thrown by std::thread and std::async (pthread_create(3), EAGAIN).
  if (const auto* const of_system = dynamic_cast<const std::system_error*>(&error);
      of_system != nullptr && of_system->code() == std::errc::resource_unavailable_try_again)
    return "cannot start another thread: a limit on threads (ulimit -u, or a control group's pids.max) or on memory "
           "(ulimit -v) is reached";
  return fmt::format("internal error: {}", error.what());
}

std::string sentence_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& what) {
    return sentence_of(what);
  }
}

}  // namespace headroom
