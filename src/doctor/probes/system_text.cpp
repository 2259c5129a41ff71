#include "doctor/probes/system_text.hpp"

namespace headroom::doctor {

std::vector<int> numbers_of_list(std::string_view list) {
  constexpr int kMost = 1 << 20;
  std::vector<int> numbers;
  for (const std::string& range : words_of(list, ", \t\n")) {
    const std::size_t dash = range.find('-');
    const std::optional<int> first = number_in<int>(range);
    const std::optional<int> last = dash == std::string::npos ? first : number_in<int>(range.substr(dash + 1));
    if (!first || !last || *first < 0 || *last > kMost) return {};
    for (int number = *first; number <= *last; ++number) numbers.push_back(number);
  }
  return numbers;
}

std::string shown_source(const std::filesystem::path& root, const std::filesystem::path& path) {
  const std::filesystem::path below = path.lexically_relative(root);
  const bool is_below = !below.empty() && *below.begin() != "..";
  return is_below ? (std::filesystem::path("/") / below).native() : path.native();
}

}  // namespace headroom::doctor
