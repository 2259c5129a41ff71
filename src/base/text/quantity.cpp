#include "base/text/quantity.hpp"

#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>

#include "base/error.hpp"

namespace headroom {
namespace {

struct Quantity {
  double value;
  std::string_view unit;
};

/// Splits text into a finite positive number and the rest.
std::optional<Quantity> split(std::string_view text) {
  Quantity quantity{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), quantity.value);
  if (error != std::errc{} || !std::isfinite(quantity.value) || quantity.value <= 0) return std::nullopt;
  quantity.unit = text.substr(static_cast<std::size_t>(end - text.data()));
  return quantity;
}

}  // namespace

double parse_share(std::string_view text, std::string_view option) {
  const std::optional<Quantity> quantity = split(text);
  if (quantity && (quantity->unit == "%" || quantity->unit.empty())) {
    const double share = quantity->unit == "%" ? quantity->value / 100 : quantity->value;
    if (share > 0 && share < 1) return share;  // the smallest numbers are rounded to 0
  }
  fail_usage("{}: '{}' is not a share such as 5% or 0.05, above 0 and below 100%", option, text);
}

double parse_budget_ms(std::string_view text, std::string_view option) {
  if (const std::optional<Quantity> quantity = split(text)) {
    double budget_ms = 0;
    if (quantity->unit == "us" || quantity->unit == "\u00b5s") budget_ms = quantity->value / 1000;
    if (quantity->unit == "ms") budget_ms = quantity->value;
    if (quantity->unit == "s") budget_ms = quantity->value * 1000;
    if (quantity->unit == "fps" || quantity->unit == "/s") budget_ms = 1000 / quantity->value;
    if (budget_ms > 0 && std::isfinite(budget_ms)) return budget_ms;
  }
  fail_usage("{}: '{}' is neither a latency such as 40ms nor a rate such as 25fps", option, text);
}

}  // namespace headroom
