#include "measure/statistics/holm.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "base/error.hpp"

namespace headroom {

std::vector<double> holm_adjust(std::span<const double> p_values) {
  for (const double p : p_values)
    if (!(p >= 0 && p <= 1)) fail("a p-value is {}; it must lie between 0 and 1", p);
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return p_values[i]; });
  std::vector<double> adjusted(p_values.size());
  double so_far = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const auto left = static_cast<double>(order.size() - rank);
    so_far = std::max(so_far, std::min(1.0, left * p_values[order[rank]]));
    adjusted[order[rank]] = so_far;
  }
  return adjusted;
}

}  // namespace headroom
