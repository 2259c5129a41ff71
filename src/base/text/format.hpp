#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// Figures as text for people: three significant digits and a unit that fits.
namespace headroom {

/// `value` with three significant digits, never in exponent form: "0.0123", "1.87", "12.3", "1235". Rounding comes
/// first, so 9.996 is "10.0". Tiny values keep their digits; NaN and infinities are "nan", "inf" and "-inf".
[[nodiscard]] std::string format_significant(double value);

/// Memory in binary units: "512 B", "12.3 MiB".
[[nodiscard]] std::string format_bytes(std::uint64_t bytes);

/// A number of things: "1 step", "4 steps", for nouns that take an s.
[[nodiscard]] std::string format_count(std::int64_t count, std::string_view noun);

struct Unit {
  double size;  ///< in the base unit
  std::string_view name;
};
/// The unit to show `value` in: the largest of which it holds at least one once rounded in the unit below, so that
/// 999.7 ms becomes "1.00 s" and not "1000 ms". `units` go from small to large.
[[nodiscard]] const Unit& choose_unit(std::span<const Unit> units, double value);

}  // namespace headroom
