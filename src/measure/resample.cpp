#include "measure/resample.hpp"

#include <utility>

#include "base/random.hpp"

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

MedianResampler::MedianResampler(std::vector<double> sorted) : sorted_(std::move(sorted)), drawn_(sorted_.size()) {
  HR_CHECK(!sorted_.empty());
}

double MedianResampler::draw(IndexStream& stream) {
  for (std::uint32_t& index : drawn_) index = stream.draw(sorted_.size());
  const auto middle = drawn_.begin() + static_cast<std::ptrdiff_t>(drawn_.size() / 2);
  std::ranges::nth_element(drawn_, middle);
  const double upper = sorted_[*middle];
  if (drawn_.size() % 2 == 1) return upper;
  return (sorted_[*std::max_element(drawn_.begin(), middle)] + upper) / 2;
}

std::vector<double> sorted_copy(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  return sorted;
}

}  // namespace headroom
