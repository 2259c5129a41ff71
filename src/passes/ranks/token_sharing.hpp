#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// An input or a state of a graph whose entries along `axis` are tokens.
struct TokenInput {
  std::string name;
  int axis = 0;
  /// Tokens that belong together and follow each other, such as those of one text: of each stretch every rank has a
  /// share. Empty if all are one stretch.
  std::vector<std::int64_t> stretches = {};
};

/// What ranks share of a graph, and which rank's graph it becomes.
struct TokenSharing {
  int rank = 0;
  std::vector<TokenInput> tokens;  ///< they stay whole: every rank has all entries, and computes on its share
};

/// The argument of the switch cp: the number of ranks, and how attention sees the tokens of all. Groups of `ulysses`
/// ranks exchange heads for tokens (DeepSpeed Ulysses, 2023), and the groups pass keys and values around a ring (Liu et
/// al., "Ring Attention", 2023).
struct ContextParallel {
  int ranks = 1;
  int ulysses = 0;  ///< ranks of such a group; it divides `ranks`. 0 if each attention chooses by its heads

  /// Reads "4", "4:ulysses", "4:ring" or "4:2x2". Throws a usage Error for anything else.
  [[nodiscard]] static ContextParallel parse(std::string_view argument);
};

/// The share of `extent` tokens that a rank has: equal ones, up to one token, which follow each other.
[[nodiscard]] std::int64_t first_of_share(std::int64_t extent, int rank, int ranks);
[[nodiscard]] std::int64_t share_of(std::int64_t extent, int rank, int ranks);

}  // namespace headroom
