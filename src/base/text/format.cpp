#include "base/text/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace headroom {
namespace {

constexpr std::array<Unit, 6> kByteUnits = {
    {{1, "B"}, {0x1p10, "KiB"}, {0x1p20, "MiB"}, {0x1p30, "GiB"}, {0x1p40, "TiB"}, {0x1p50, "PiB"}}};

constexpr int kLeastPlainExponent = -3, kLeastLargeExponent = 15;  // of format_significant()

/// `value` rounded as it will be shown: to three significant digits below 1000, else to an integer.
double round_as_shown(double value) {
  const std::string text = format_significant(value);
  double rounded = value;
  std::from_chars(text.data(), text.data() + text.size(), rounded);
  return rounded;
}

}  // namespace

std::string format_significant(double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  if (value == 0) return "0";
  // The exponent after rounding to three digits, from the rounded text itself: 9.996 is 1.00e+01.
  const std::string scientific = fmt::format("{:.2e}", value);
  int exponent = 0;
  std::string_view digits = std::string_view(scientific).substr(scientific.find('e') + 1);
  if (digits.starts_with('+')) digits.remove_prefix(1);  // which from_chars does not accept
  std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
  if (exponent < kLeastPlainExponent || exponent >= kLeastLargeExponent)
    return fmt::format("{}e{}", std::string_view(scientific).substr(0, scientific.find('e')), exponent);
  return fmt::format("{:.{}f}", value, std::max(0, 2 - exponent));
}

const Unit& choose_unit(std::span<const Unit> units, double value) {
  std::size_t chosen = 0;
  while (chosen + 1 < units.size()) {
    // Allows for the rounding error of a quotient of two sizes: 1e-3 / 1e-6 exceeds 1000.
    const double next = units[chosen + 1].size / units[chosen].size * (1 - 1e-9);
    if (!(round_as_shown(std::abs(value) / units[chosen].size) >= next)) break;
    ++chosen;
  }
  return units[chosen];
}

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  const auto value = static_cast<double>(bytes);
  const Unit& unit = choose_unit(kByteUnits, value);
  return fmt::format("{} {}", format_significant(value / unit.size), unit.name);
}

std::string format_count(std::int64_t count, std::string_view noun) {
  if (count == 1) return fmt::format("1 {}", noun);
  const bool is_hissing = noun.ends_with("s") || noun.ends_with("ch") || noun.ends_with("sh") || noun.ends_with("x");
  return fmt::format("{} {}{}", count, noun, is_hissing ? "es" : "s");
}

}  // namespace headroom
