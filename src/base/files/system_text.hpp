#pragma once

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace headroom {

/// The text of a small file of proc or sys. A process cannot rely on these, so a file that cannot be read is empty.
[[nodiscard]] inline std::string system_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

[[nodiscard]] inline std::string first_line_of(const std::filesystem::path& path) {
  const std::string text = system_text(path);
  return text.substr(0, text.find('\n'));
}

/// The number that a text begins with.
template <typename Number>
[[nodiscard]] std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} ? std::optional(value) : std::nullopt;
}

}  // namespace headroom
