#pragma once

#include <type_traits>

namespace headroom {

/// `number` / `divisor`, rounded up; of integers that are not negative.
template <class T>
[[nodiscard]] constexpr T divide_up(T number, std::common_type_t<T> divisor) {
  static_assert(std::is_integral_v<T>);
  return (number + divisor - 1) / divisor;
}

}  // namespace headroom
