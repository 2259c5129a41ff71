#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// Numbers as text for people: three significant digits and a fitting unit.
namespace headroom {

/// `value` with three significant digits: "0.0123", "1.87", "12.3", "1235". Rounding comes first, so 9.996 is "10.0".
/// Below 0.001 and from 1e15 it has an exponent: "6.02e-6". NaN and infinities are "nan", "inf" and "-inf".
[[nodiscard]] std::string format_significant(double value);

/// Memory in binary units: "512 B", "12.3 MiB".
[[nodiscard]] std::string format_bytes(std::uint64_t bytes);

/// A count with its noun: "1 step", "4 steps", "1 launch", "2 launches": for nouns with a plural in s or es.
[[nodiscard]] std::string format_count(std::int64_t count, std::string_view noun);

struct Unit {
  double size;  ///< in the base unit
  std::string_view name;
};
/// The unit for `value`: the largest of which it has at least one after rounding in the next smaller unit, so that
/// 999.7 ms becomes "1.00 s" and not "1000 ms". `units` are sorted from small to large.
[[nodiscard]] const Unit& choose_unit(std::span<const Unit> units, double value);

}  // namespace headroom
