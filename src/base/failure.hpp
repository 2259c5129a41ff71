#pragma once

#include <exception>
#include <string>

namespace headroom {

/// The sentence that a user reads for an exception: an Error's own; what is said of memory, threads and files where the
/// system refuses them; anything else is a bug and begins with "internal error: ".
[[nodiscard]] std::string sentence_of(const std::exception& error);
/// The same for one that was caught; it must hold a std::exception.
[[nodiscard]] std::string sentence_of(const std::exception_ptr& error);

}  // namespace headroom
