#include "cli/number.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.hpp"
#include "base/list.hpp"

namespace headroom {
namespace {

/// All of the text as a number.
template <typename Number>
std::optional<Number> parse(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool has_leading_zero(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return text.size() > 1 && text.front() == '0';
}

template <typename Whole>
std::string check_whole(const std::string& text, Whole low, Whole high) {
  const std::optional<Whole> value = parse<Whole>(text);
  if (value && *value >= low && *value <= high && !has_leading_zero(text)) return "";
  return fmt::format("'{}' is not a whole number from {} to {}{}", text, low, high,
                     has_leading_zero(text) ? ", without leading zeros" : "");
}

}  // namespace

CLI::Validator whole_number(std::int64_t low, std::int64_t high) {
  return {[=](const std::string& text) { return check_whole(text, low, high); },
          fmt::format("INT in [{} - {}]", low, high)};
}

std::vector<std::int64_t> parse_whole_numbers(const std::vector<std::string>& lists, std::string_view option,
                                              std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> numbers;
  for (const std::string& list : lists)
    for (const std::string& item : split_list(list, option)) {
      if (const std::string wrong = check_whole(item, low, high); !wrong.empty()) fail_usage("{}: {}", option, wrong);
      numbers.push_back(std::stoll(item));
    }
  if (numbers.empty()) fail_usage("{}: {}", option, check_whole("", low, high));
  return numbers;
}

CLI::Validator seed_number() {
  return {[](const std::string& text) {
            return check_whole<std::uint64_t>(text, 0, std::numeric_limits<std::uint64_t>::max());
          },
          ""};
}

CLI::Validator real_number(double low, double high) {
  return {[=](const std::string& text) {
            const std::optional<double> value = parse<double>(text);
            if (value && *value >= low && *value <= high) return std::string();  // NaN is not
            return fmt::format("'{}' is not a number from {} to {}", text, low, high);
          },
          fmt::format("FLOAT in [{} - {}]", low, high)};
}

}  // namespace headroom
