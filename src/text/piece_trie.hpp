#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// Throws Error, with `context`, where a piece is too long to be looked for at each place of a text.
void check_searched_length(std::string_view piece, std::string_view context);

/// Strings, each with a number, to be found at the front of a text: a trie over bytes in one array, level by level.
class PieceTrie {
 public:
  struct Entry {
    std::string piece;
    std::int32_t value;
  };
  /// Of pieces that are equal the last one counts; an empty one is never found.
  explicit PieceTrie(std::vector<Entry> entries = {});

  /// What `text` begins with, from the shortest piece to the longest; calls found(bytes, value) for each.
  template <typename Found>
  void visit_prefixes(std::string_view text, Found found) const {
    std::size_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      node = child(node, static_cast<unsigned char>(text[i]));
      if (node == 0) return;
      if (nodes_[node].value >= 0) found(i + 1, nodes_[node].value);
    }
  }

  struct Match {
    std::size_t bytes;
    std::int32_t value;
  };
  [[nodiscard]] std::optional<Match> longest_prefix(std::string_view text) const;

 private:
  struct Node {
    std::uint32_t first_child;  // children end where the next node's begin
    std::int32_t value;         // -1: no piece ends here
    unsigned char byte;         // that leads here
  };
  [[nodiscard]] std::size_t child(std::size_t node, unsigned char byte) const;  // 0, the root: there is none

  std::vector<Node> nodes_;  // and one behind the last
};

}  // namespace headroom
