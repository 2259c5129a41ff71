#pragma once

#include <type_traits>

namespace headroom {

/// `number` / `divisor`, rounded up; of integers that are not negative.
template <class T>
[[nodiscard]] constexpr T divide_up(T number, std::common_type_t<T> divisor) {
  static_assert(std::is_integral_v<T>);
  return (number + divisor - 1) / divisor;
}

/// The least multiple of `unit` that is not below `number`; of integers that are not negative.
template <class T>
[[nodiscard]] constexpr T round_up(T number, std::common_type_t<T> unit) {
  return divide_up(number, unit) * unit;
}

}  // namespace headroom
