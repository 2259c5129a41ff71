#include "train/token_sequences.hpp"

#include "base/error.hpp"
#include "base/text/format.hpp"

namespace headroom {
namespace {

std::int64_t sequences_of(std::span<const std::uint16_t> ids, std::int64_t tokens, std::string_view context) {
  const std::int64_t count = (std::ssize(ids) - tokens) / tokens;
  if (count < 1)
    fail("{}: it has {}, expected at least two sequences of {}", context, format_count(std::ssize(ids), "token"),
         tokens);
  return count;
}

}  // namespace

TokenSequences::TokenSequences(std::span<const std::uint16_t> ids, std::int64_t tokens, std::uint64_t seed,
                               std::string_view context)
    : ids_(ids), tokens_(tokens), order_(sequences_of(ids, tokens, context), seed) {}

std::int64_t TokenSequences::start(std::int64_t number) const {
  return order_.of_epoch(number) % tokens_ + order_.sample(number) * tokens_;
}

void TokenSequences::fill(HostTensor& sequences, std::int64_t number) const {
  const std::span<std::int32_t> all = sequences.as<std::int32_t>();
  const auto length = static_cast<std::size_t>(tokens_ + 1);
  for (std::size_t at = 0; at < all.size(); at += length) copy(start(number++), all.subspan(at, length));
}

void TokenSequences::fill_in_order(HostTensor& sequences, std::int64_t index) const {
  const std::span<std::int32_t> all = sequences.as<std::int32_t>();
  const auto length = static_cast<std::size_t>(tokens_ + 1);
  for (std::size_t at = 0; at < all.size(); at += length)
    copy(index++ % per_epoch() * tokens_, all.subspan(at, length));
}

void TokenSequences::copy(std::int64_t start, std::span<std::int32_t> to) const {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = ids_[static_cast<std::size_t>(start) + i];
}

}  // namespace headroom
