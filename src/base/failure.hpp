#pragma once

#include <exception>
#include <string>

namespace headroom {

/// The user-visible sentence for an exception: an Error's own message, or a description if the system refuses
/// memory, threads or files. Anything else is a bug and begins with "internal error: ".
[[nodiscard]] std::string sentence_of(const std::exception& error);
/// The same for a caught exception, which must be a std::exception.
[[nodiscard]] std::string sentence_of(const std::exception_ptr& error);

}  // namespace headroom
