#pragma once

#include <type_traits>

namespace headroom {

/// `number` / `divisor`, rounded up, for non-negative integers.
template <class T>
[[nodiscard]] constexpr T divide_up(T number, std::common_type_t<T> divisor) {
  static_assert(std::is_integral_v<T>);
  return (number + divisor - 1) / divisor;
}

/// The least multiple of `unit` that is at least `number`, for non-negative integers.
template <class T>
[[nodiscard]] constexpr T round_up(T number, std::common_type_t<T> unit) {
  return divide_up(number, unit) * unit;
}

}  // namespace headroom
