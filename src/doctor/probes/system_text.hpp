#pragma once

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

/// Reads the small text files of proc and sys, which a process cannot rely on: a file that cannot be read is empty.
namespace headroom::doctor {

[[nodiscard]] inline std::string system_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

[[nodiscard]] inline std::string first_line_of(const std::filesystem::path& path) {
  const std::string text = system_text(path);
  return text.substr(0, text.find('\n'));
}

[[nodiscard]] inline std::vector<std::string> words_of(std::string_view text, std::string_view blanks = " \t\n") {
  std::vector<std::string> words;
  for (std::size_t at = text.find_first_not_of(blanks); at < text.size(); at = text.find_first_not_of(blanks, at)) {
    const std::size_t end = std::min(text.find_first_of(blanks, at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

/// The number that a text begins with.
template <typename Number>
[[nodiscard]] std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} ? std::optional(value) : std::nullopt;
}

/// The numbers of a list such as "0-3,8"; empty if it is none, or names a CPU above 1 << 20.
[[nodiscard]] std::vector<int> numbers_of_list(std::string_view list);

/// A source as users know it: the path without the root's folder.
[[nodiscard]] std::string shown_source(const std::filesystem::path& root, const std::filesystem::path& path);

}  // namespace headroom::doctor
