#include "base/text/list.hpp"

#include "base/error.hpp"

namespace headroom {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\r";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

}  // namespace

std::vector<std::string> split_list(std::string_view list, std::string_view what) {
  std::vector<std::string> items;
  if (trimmed(list).empty()) return items;
  for (std::size_t begin = 0, end = 0; end != std::string_view::npos; begin = end + 1) {
    end = list.find(',', begin);
    items.emplace_back(trimmed(list.substr(begin, end == std::string_view::npos ? end : end - begin)));
    if (items.back().empty()) fail_usage("{}: item {} of '{}' is empty", what, items.size(), list);
  }
  return items;
}

}  // namespace headroom
