#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// Throws Error, with `context`, if a piece is too long to be searched at each position of a text.
void check_searched_length(std::string_view piece, std::string_view context);

/// Strings with a number each, to be matched at the beginning of a text: a trie over bytes in one array, level by
/// level.
class PieceTrie {
 public:
  struct Entry {
    std::string piece;
    std::int32_t value;
  };
  /// The last of several equal pieces counts; an empty piece is never found.
  explicit PieceTrie(std::vector<Entry> entries = {});

  /// Calls found(bytes, value) for each piece that is a prefix of `text`, from the shortest to the longest.
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
    std::uint32_t first_child;  // the children end at the next node's first child
    std::int32_t value;         // -1 if no piece ends here
    unsigned char byte;         // on the edge to this node
  };
  [[nodiscard]] std::size_t child(std::size_t node, unsigned char byte) const;  // 0, the root, if there is none

  std::vector<Node> nodes_;  // and a sentinel
};

}  // namespace headroom
