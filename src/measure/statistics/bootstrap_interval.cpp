#include "measure/statistics/bootstrap_interval.hpp"

#include <utility>

#include "base/tensors/random.hpp"

namespace headroom {

IndexStream::IndexStream(std::uint64_t seed, std::uint32_t stream)
    : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U)}, counter_{0, 0, stream, 0} {}

std::uint32_t IndexStream::draw(std::size_t n) {
  if (used_ == words_.size()) {
    words_ = philox4x32(counter_, key_);
    if (++counter_[0] == 0) ++counter_[1];
    used_ = 0;
  }
  return static_cast<std::uint32_t>((std::uint64_t{words_[used_++]} * n) >> 32U);
}

MedianResampler::MedianResampler(std::vector<double> sorted)
    : sorted_(std::move(sorted)), times_drawn_(sorted_.size()) {
  HR_CHECK(!sorted_.empty());
}

double MedianResampler::draw(IndexStream& stream) {
  const std::size_t n = sorted_.size();
  std::ranges::fill(times_drawn_, 0);
  for (std::size_t i = 0; i < n; ++i) ++times_drawn_[stream.draw(n)];
  std::size_t index = 0, up_to = times_drawn_[0];  // number of values of the resample that are at most sorted_[index]
  const auto advance_to = [&](std::size_t rank) {
    while (up_to <= rank) up_to += times_drawn_[++index];
    return sorted_[index];
  };
  if (n % 2 == 1) return advance_to(n / 2);
  const double lower = advance_to(n / 2 - 1);
  return (lower + advance_to(n / 2)) / 2;
}

std::vector<double> sorted_copy(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  return sorted;
}

}  // namespace headroom
