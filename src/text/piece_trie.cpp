#include "text/piece_trie.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text/printable.hpp"

namespace headroom {

void check_searched_length(std::string_view piece, std::string_view context) {
  constexpr std::size_t kMost = 256;  // published ones have up to 64 bytes
  if (piece.size() > kMost)
    fail("{}: a token has {} bytes, but at most {} are allowed; it begins '{}'", context, piece.size(), kMost,
         printable_name(piece.substr(0, 20)));
}

PieceTrie::PieceTrie(std::vector<Entry> entries) {
  std::ranges::stable_sort(entries, {}, &Entry::piece);
  // The entries below each existing node, which all share their first `depth` bytes.
  struct Below {
    std::size_t begin;
    std::size_t end;
    std::size_t depth;
  };
  std::vector<Below> below{{0, entries.size(), 0}};
  nodes_.push_back({.first_child = 1, .value = -1, .byte = 0});
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    auto [at, end, depth] = below[node];
    nodes_[node].first_child = static_cast<std::uint32_t>(nodes_.size());
    for (; at < end && entries[at].piece.size() == depth; ++at)
      if (depth > 0) nodes_[node].value = entries[at].value;
    while (at < end) {
      const char byte = entries[at].piece[depth];
      std::size_t last = at;
      while (last < end && entries[last].piece[depth] == byte) ++last;
      nodes_.push_back({.first_child = 0, .value = -1, .byte = static_cast<unsigned char>(byte)});
      below.push_back({at, last, depth + 1});
      at = last;
    }
  }
  nodes_.push_back({.first_child = static_cast<std::uint32_t>(nodes_.size()), .value = -1, .byte = 0});
}

std::size_t PieceTrie::child(std::size_t node, unsigned char byte) const {
  const auto begin = nodes_.begin() + nodes_[node].first_child;
  const auto end = nodes_.begin() + nodes_[node + 1].first_child;
  const auto found = std::lower_bound(begin, end, byte, [](const Node& a, unsigned char b) { return a.byte < b; });
  return found != end && found->byte == byte ? static_cast<std::size_t>(found - nodes_.begin()) : 0;
}

std::optional<PieceTrie::Match> PieceTrie::longest_prefix(std::string_view text) const {
  std::optional<Match> longest;
  visit_prefixes(text, [&](std::size_t bytes, std::int32_t value) { longest = Match{bytes, value}; });
  return longest;
}

}  // namespace headroom
