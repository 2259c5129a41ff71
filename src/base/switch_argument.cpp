#include "base/switch_argument.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/text/nearest.hpp"

namespace headroom {

void SwitchArgument::read_keys(const std::vector<std::pair<std::string, Read>>& readers) const {
  std::vector<std::string> known;
  for (const auto& [key, read] : readers) known.push_back(key);
  for (std::size_t at = head().size(); at < text_.size();) {
    const std::size_t end = std::min(text_.find(':', at + 1), text_.size());
    const std::string_view item = text_.substr(at + 1, end - at - 1);
    const std::string_view key = item.substr(0, item.find('='));
    const auto reader = std::ranges::find(known, key);
    if (reader == known.end() || key.size() == item.size())
      refuse("'{}' is none of {}, each with =value{}", item, fmt::join(known, ", "), did_you_mean(key, known));
    readers[static_cast<std::size_t>(reader - known.begin())].second(item.substr(key.size() + 1));
    at = end;
  }
}

std::int64_t SwitchArgument::whole(std::string_view what, std::string_view value, std::int64_t low,
                                   std::int64_t high) const {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size() || number < low || number > high)
    refuse("{} is '{}', expected a whole number from {} to {}", what, value, low, high);
  return number;
}

std::optional<double> SwitchArgument::real(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

}  // namespace headroom
