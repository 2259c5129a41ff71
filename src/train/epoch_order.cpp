#include "train/epoch_order.hpp"

#include <bit>

#include "base/error.hpp"
#include "base/tensors/random.hpp"

namespace headroom {

EpochOrder::EpochOrder(std::int64_t count, std::uint64_t seed) : count_(count), seed_(seed) { HR_CHECK(count > 0); }

std::uint32_t EpochOrder::of_epoch(std::int64_t number) const { return draw(0, 0, number / count_); }

/// A Feistel network (Luby and Rackoff, "How to construct pseudorandom permutations from pseudorandom functions", 1988)
/// on the least even number of bits that holds every index, again until the result is an index.
std::int64_t EpochOrder::sample(std::int64_t number) const {
  constexpr std::uint32_t kRounds = 4;
  const std::int64_t epoch = number / count_;
  const auto half = static_cast<unsigned>((std::bit_width(static_cast<std::uint64_t>(count_ - 1)) + 1) / 2);
  const std::uint32_t mask = (std::uint32_t{1} << half) - 1;
  auto value = static_cast<std::uint64_t>(number % count_);
  do {
    auto left = static_cast<std::uint32_t>(value >> half);
    auto right = static_cast<std::uint32_t>(value) & mask;
    for (std::uint32_t round = 1; round <= kRounds; ++round) {
      const std::uint32_t next = left ^ (draw(round, right, epoch) & mask);
      left = right;
      right = next;
    }
    value = static_cast<std::uint64_t>(left) << half | right;
  } while (value >= static_cast<std::uint64_t>(count_));
  return static_cast<std::int64_t>(value);
}

std::uint32_t EpochOrder::draw(std::uint32_t what, std::uint32_t value, std::int64_t epoch) const {
  const auto of_epoch = static_cast<std::uint64_t>(epoch);
  return philox4x32({value, what, static_cast<std::uint32_t>(of_epoch), static_cast<std::uint32_t>(of_epoch >> 32U)},
                    {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32U)})[0];
}

}  // namespace headroom
