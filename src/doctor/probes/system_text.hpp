#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/system_text.hpp"

/// What the small text files of proc and sys consist of.
namespace headroom::doctor {

[[nodiscard]] inline std::vector<std::string> words_of(std::string_view text, std::string_view blanks = " \t\n") {
  std::vector<std::string> words;
  for (std::size_t at = text.find_first_not_of(blanks); at < text.size(); at = text.find_first_not_of(blanks, at)) {
    const std::size_t end = std::min(text.find_first_of(blanks, at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

/// The numbers of a list such as "0-3,8"; empty if it is none, or names a CPU above 1 << 20.
[[nodiscard]] std::vector<int> numbers_of_list(std::string_view list);

/// A source as users know it: the path without the root's folder.
[[nodiscard]] std::string shown_source(const std::filesystem::path& root, const std::filesystem::path& path);

}  // namespace headroom::doctor
