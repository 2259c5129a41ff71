// Formats figures as text, and as cells of tables.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "measure/tables/table.hpp"

namespace headroom {
namespace {

constexpr std::array<Unit, 6> kTimeUnits = {
    {{1e-6, "ns"}, {1e-3, "µs"}, {1, "ms"}, {1e3, "s"}, {60e3, "min"}, {3600e3, "h"}}};

/// The number of decimals that format_significant() shows for a number; nothing where it shows an exponent.
std::optional<int> decimals_of(double value) {
  const std::string text = format_significant(value);
  if (text.find('e') != std::string::npos) return {};
  const std::size_t point = text.find('.');
  return point == std::string::npos ? 0 : static_cast<int>(text.size() - point - 1);
}

/// "[0.98, 1.01]"; an end is never "-0.00". An end over zero that would be shown as zero has its own digits, and so has
/// each end without a number of decimals: "[6.02e-6, 7.00e-6]".
std::string ends_text(double low, double high, std::optional<int> decimals) {
  const auto end_text = [decimals](double end) {
    if (!decimals) return format_significant(end);
    std::string text = fmt::format("{:.{}f}", end, *decimals);
    if (text.find_first_not_of("-0.") != std::string::npos) return text;
    if (end > 0) return format_significant(end);
    if (text.starts_with('-')) text.erase(0, 1);
    return text;
  };
  return fmt::format("[{}, {}]", end_text(low), end_text(high));
}

bool looks_like_one(double value, int decimals) {
  return value != 1 && fmt::format("{:.{}f}", value, decimals) == fmt::format("{:.{}f}", 1.0, decimals);
}

double larger_end(const Interval& interval) { return std::max(std::abs(interval.low), std::abs(interval.high)); }

}  // namespace

std::string format_ms(double ms) {
  if (ms == 0) return "0 ms";
  const Unit& unit = choose_unit(kTimeUnits, ms);
  return fmt::format("{} {}", format_significant(ms / unit.size), unit.name);
}

std::string format_interval_ms(const Interval& interval_ms) {
  const double larger = larger_end(interval_ms);
  const Unit& unit = choose_unit(kTimeUnits, larger);
  return fmt::format(
      "{} {}", ends_text(interval_ms.low / unit.size, interval_ms.high / unit.size, decimals_of(larger / unit.size)),
      unit.name);
}

std::string interval_or_reason(const Summary& trials_ms) {
  return trials_ms.median_interval ? format_interval_ms(*trials_ms.median_interval)
                                   : fmt::format("({})", too_few_for_interval(trials_ms.n));
}

std::string format_interval(const Interval& interval) {
  constexpr int kMore = 2;
  std::optional<int> decimals = decimals_of(larger_end(interval));
  for (int more = 0; decimals && more < kMore; ++more)
    if (looks_like_one(interval.low, *decimals) || looks_like_one(interval.high, *decimals)) ++*decimals;
  return ends_text(interval.low, interval.high, decimals);
}

std::string format_brief(double value) {
  std::string text = format_significant(value);
  const std::size_t exponent = std::min(text.find('e'), text.size());
  if (text.find('.') < exponent) {
    const std::size_t last = text.find_last_not_of('0', exponent - 1);
    const std::size_t end = text[last] == '.' ? last : last + 1;
    text.erase(end, exponent - end);
  }
  return text;
}

std::string format_signed(double value) { return (value > 0 ? "+" : "") + format_brief(value); }

std::string format_p(double p) {
  if (p < 0.001) return "<0.001";
  return p > 0.999 ? ">0.999" : fmt::format("{:.3f}", p);
}

std::string format_factor(double factor) { return format_significant(factor) + "x"; }

std::string exact_number(double value) { return fmt::format("{}", value); }

Cell number_cell(double value, std::string shown) { return {std::move(shown), {exact_number(value)}}; }

Cell count_cell(std::int64_t count) { return fmt::format("{}", count); }

Cell ms_cell(std::optional<double> ms) { return ms ? number_cell(*ms, format_ms(*ms)) : no_value(); }

Cell interval_ms_cell(const std::optional<Interval>& interval_ms) {
  if (!interval_ms) return no_value();
  return {format_interval_ms(*interval_ms), {exact_number(interval_ms->low), exact_number(interval_ms->high)}};
}

Cell factor_cell(std::optional<double> factor) {
  return factor ? number_cell(*factor, format_factor(*factor)) : no_value();
}

Cell baseline_cell() { return number_cell(1, "baseline"); }

Cell interval_cell(const std::optional<Interval>& interval) {
  if (!interval) return no_value();
  return {format_interval(*interval), {exact_number(interval->low), exact_number(interval->high)}};
}

Cell bytes_cell(std::optional<std::int64_t> bytes) {
  if (!bytes) return no_value();
  return {format_bytes(static_cast<std::uint64_t>(*bytes)), {fmt::format("{}", *bytes)}};
}

}  // namespace headroom
