#include "cli/number.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.hpp"
#include "base/text/list.hpp"

namespace headroom {
namespace {

/// Parses the whole text as a number.
template <typename Number>
std::optional<Number> parse(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Bytes of a unit, case-insensitive: powers of 1000 for "kb" and "k", of 1024 for "kib" and "ki".
std::optional<double> bytes_of_unit(std::string unit) {
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (unit.empty() || unit == "b") return 1;
  const std::size_t power = std::string_view("kmgtpe").find(unit.front()) + 1;
  const std::string_view rest = std::string_view(unit).substr(1);
  const bool is_binary = rest == "i" || rest == "ib";
  if (power == 0 || !(is_binary || rest.empty() || rest == "b")) return std::nullopt;
  return std::pow(is_binary ? 1024 : 1000, static_cast<double>(power));
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  constexpr double kMost = 1024.0 * 1024 * 1024 * 1024 * 1024 * 1024;
  const std::size_t digits = text.find_last_of("0123456789.") + 1;  // 0 if there are none
  const std::optional<double> number = parse<double>(text.substr(0, digits));
  const std::string_view unit = text.substr(digits);
  const std::optional<double> factor =
      bytes_of_unit(std::string(unit.substr(std::min(unit.find_first_not_of(' '), unit.size()))));
  if (!number || !factor || !(*number * *factor >= 1 && *number * *factor <= kMost)) return std::nullopt;
  return static_cast<std::uint64_t>(*number * *factor);
}

bool has_leading_zero(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return text.size() > 1 && text.front() == '0' && text.find_first_not_of("0123456789") == std::string_view::npos;
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
                                              std::int64_t low, std::int64_t high, std::string_view own) {
  std::vector<std::int64_t> numbers;
  for (const std::string& list : lists)
    for (const std::string& item : split_list(list, option)) {
      const bool is_own = !own.empty() && item == own;
      if (const std::string wrong = check_whole(item, low, high); !is_own && !wrong.empty())
        fail_usage("{}: {}{}", option, wrong, own.empty() ? "" : fmt::format(", nor '{}'", own));
      numbers.push_back(is_own ? 0 : std::stoll(item));
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

CLI::Validator byte_size() {
  return {[](std::string& text) {
            const std::optional<std::uint64_t> bytes = parse_bytes(text);
            if (!bytes) return fmt::format("'{}' is not a size such as 16GiB, from one byte to 1EiB", text);
            text = fmt::format("{}", *bytes);
            return std::string();
          },
          "SIZE"};
}

CLI::Validator share() {
  return {[](std::string& text) {
            const bool is_percent = text.ends_with('%');
            const std::optional<double> value = parse<double>(is_percent ? text.substr(0, text.size() - 1) : text);
            if (!value || !(*value >= 0 && (is_percent ? *value <= 100 : *value < 1)))
              return fmt::format("'{}' is not a share such as 1% or 0.01, from 0 to 100%", text);
            text = fmt::format("{}", is_percent ? *value / 100 : *value);
            return std::string();
          },
          ""};
}

CLI::Validator real_number(double low, double high) {
  return {[=](const std::string& text) {
            const std::optional<double> value = parse<double>(text);
            if (value && *value >= low && *value <= high) return std::string();  // NaN fails
            return fmt::format("'{}' is not a number from {} to {}", text, low, high);
          },
          fmt::format("FLOAT in [{} - {}]", low, high)};
}

}  // namespace headroom
