#include "base/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <system_error>

namespace headroom {
namespace {

std::optional<std::size_t> columns_of_environment() {
  const char* const variable = std::getenv("COLUMNS");
  if (variable == nullptr) return std::nullopt;
  const std::string_view text(variable);
  std::size_t columns = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), columns);
  if (error != std::errc{} || end != text.data() + text.size() || columns == 0) return std::nullopt;
  return columns;
}

}  // namespace

std::optional<std::size_t> terminal_columns(int descriptor) {
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return size.ws_col;
}

void erase_bar() {
  constexpr std::string_view kEraseLine = "\r\x1b[K";
  const int descriptor = bar_descriptor.exchange(kNoBar);
  if (descriptor == kNoBar) return;
  // A failure to erase a bar must not fail the work.
  [[maybe_unused]] const ssize_t written = ::write(descriptor, kEraseLine.data(), kEraseLine.size());
}

std::size_t output_columns(int descriptor) {
  std::optional<std::size_t> columns = columns_of_environment();
  if (!columns) columns = terminal_columns(descriptor);
  return std::max(columns.value_or(kDefaultColumns), kFewestColumns);
}

}  // namespace headroom
