#include "tune/nearest_size.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace headroom::tune {

double distance(std::span<const std::int64_t> size, std::span<const std::int64_t> other) {
  if (size.size() != other.size()) return std::numeric_limits<double>::infinity();
  double sum = 0;
  for (std::size_t i = 0; i < size.size(); ++i)
    sum += std::abs(std::log(static_cast<double>(size[i]) / static_cast<double>(other[i])));
  return sum;
}

std::vector<TunedSize> nearest_first(std::vector<TunedSize> tuned, std::span<const std::int64_t> size) {
  std::erase_if(tuned, [&](const TunedSize& other) { return !std::isfinite(distance(size, other.size)); });
  std::ranges::sort(tuned, [&](const TunedSize& a, const TunedSize& b) {
    return std::tuple(distance(size, a.size), a.size) < std::tuple(distance(size, b.size), b.size);
  });
  return tuned;
}

std::string taken_over_from(std::span<const std::int64_t> size) {
  return fmt::format(", taken over from size {}", fmt::join(size, "x"));
}

}  // namespace headroom::tune
