#include "base/log.hpp"

#include <cstddef>
#include <string>

#include "base/terminal.hpp"
#include "base/text/printable.hpp"

namespace headroom {

void Log::print(std::string_view prefix, std::string_view message) const {
  erase_bar();
  const std::string line = fmt::format("{}{}\n", prefix, printable_name(message));
  // A single write, so that lines of several threads do not mix. A failure cannot be reported anywhere.
  [[maybe_unused]] const ssize_t written = ::write(descriptor_, line.data(), line.size());
}

}  // namespace headroom
