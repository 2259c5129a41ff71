#include "report/advice/price.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/error.hpp"
#include "base/text/format.hpp"

namespace headroom {

Price Price::parse(std::string_view text) {
  constexpr std::string_view kPerHour = "/h";
  const std::size_t digits = std::min(text.find_first_of("0123456789."), text.size());
  Price price{.currency = std::string(text.substr(0, digits)), .per_hour = 0};
  const std::string_view number = text.substr(digits);
  const char* const end = number.data() + number.size() - (number.ends_with(kPerHour) ? kPerHour.size() : 0);
  const auto [stopped, error] = std::from_chars(number.data(), end, price.per_hour);
  if (!number.ends_with(kPerHour) || error != std::errc() || stopped != end ||
      price.currency.find('-') != std::string::npos || !std::isfinite(price.per_hour) || !(price.per_hour > 0))
    fail_usage("--price '{}': expected what the machine costs an hour, such as 2.50/h", text);
  return price;
}

std::string Price::label(double cost) const { return currency + format_significant(cost); }

std::string Price::text() const { return fmt::format("{}{} an hour", currency, per_hour); }

}  // namespace headroom
