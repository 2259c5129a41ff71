#include "base/log.hpp"

#include <cstddef>
#include <string>

#include "base/terminal.hpp"
#include "base/text/printable.hpp"

namespace headroom {

void Log::print(std::string_view prefix, std::string_view message) const {
  const bool holds_bar = ::isatty(descriptor_) == 1 && bar_on_line.exchange(false);
  const std::string_view clear = holds_bar ? kEraseLine : "";
  const std::string line = fmt::format("{}{}{}\n", clear, prefix, printable_name(message));
  // A single write, so that lines of several threads do not mix. A failure cannot be reported anywhere.
  [[maybe_unused]] const ssize_t written = ::write(descriptor_, line.data(), line.size());
}

}  // namespace headroom
