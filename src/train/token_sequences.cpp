#include "train/token_sequences.hpp"

#include <bit>

#include "base/error.hpp"
#include "base/tensors/random.hpp"

namespace headroom {

TokenSequences::TokenSequences(std::span<const std::uint16_t> ids, std::int64_t tokens, std::uint64_t seed)
    : ids_(ids), tokens_(tokens), seed_(seed), per_epoch_((std::ssize(ids) - tokens) / tokens) {
  if (per_epoch_ < 1) fail("there are {} tokens, expected at least two sequences of {}", ids.size(), tokens);
}

std::int64_t TokenSequences::start(std::int64_t number) const {
  const std::int64_t epoch = number / per_epoch_;
  const std::int64_t offset = draw(0, 0, epoch) % tokens_;
  return offset + permuted(number % per_epoch_, epoch) * tokens_;
}

void TokenSequences::fill(HostTensor& sequences, std::int64_t number) const {
  const std::span<std::int32_t> all = sequences.as<std::int32_t>();
  const auto length = static_cast<std::size_t>(tokens_ + 1);
  for (std::size_t at = 0; at < all.size(); at += length) copy(start(number++), all.subspan(at, length));
}

void TokenSequences::fill_in_order(HostTensor& sequences, std::int64_t index) const {
  const std::span<std::int32_t> all = sequences.as<std::int32_t>();
  const auto length = static_cast<std::size_t>(tokens_ + 1);
  for (std::size_t at = 0; at < all.size(); at += length) copy(index++ % per_epoch_ * tokens_, all.subspan(at, length));
}

void TokenSequences::copy(std::int64_t start, std::span<std::int32_t> to) const {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = ids_[static_cast<std::size_t>(start) + i];
}

/// A Feistel network (Luby and Rackoff, "How to construct pseudorandom permutations from pseudorandom functions", 1988)
/// on the least even number of bits that holds every index, again until the result is an index.
std::int64_t TokenSequences::permuted(std::int64_t index, std::int64_t epoch) const {
  constexpr std::uint32_t kRounds = 4;
  const auto half = static_cast<unsigned>((std::bit_width(static_cast<std::uint64_t>(per_epoch_ - 1)) + 1) / 2);
  const std::uint32_t mask = (std::uint32_t{1} << half) - 1;
  auto value = static_cast<std::uint64_t>(index);
  do {
    auto left = static_cast<std::uint32_t>(value >> half);
    auto right = static_cast<std::uint32_t>(value) & mask;
    for (std::uint32_t round = 1; round <= kRounds; ++round) {
      const std::uint32_t next = left ^ (draw(round, right, epoch) & mask);
      left = right;
      right = next;
    }
    value = static_cast<std::uint64_t>(left) << half | right;
  } while (value >= static_cast<std::uint64_t>(per_epoch_));
  return static_cast<std::int64_t>(value);
}

std::uint32_t TokenSequences::draw(std::uint32_t what, std::uint32_t value, std::int64_t epoch) const {
  const auto of_epoch = static_cast<std::uint64_t>(epoch);
  return philox4x32({value, what, static_cast<std::uint32_t>(of_epoch), static_cast<std::uint32_t>(of_epoch >> 32U)},
                    {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32U)})[0];
}

}  // namespace headroom
