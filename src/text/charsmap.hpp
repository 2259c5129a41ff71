#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// SentencePiece's precompiled character map (nmt_nfkc and others): strings and what replaces each. Its bytes are the
/// size of a double-array trie (Darts-clone), the trie, and the replacements, each ended by a NUL.
class Charsmap {
 public:
  /// An empty map for no bytes. Throws Error, with `context`, where the bytes are no such map.
  Charsmap(std::string_view bytes, std::string_view context);

  struct Match {
    std::size_t bytes;             ///< of the text that are replaced
    std::string_view replacement;  ///< perhaps empty
  };
  /// The shortest string of the map that `text` begins with. Throws Error where that or its replacement is not whole
  /// characters.
  [[nodiscard]] std::optional<Match> shortest_prefix(std::string_view text) const;

 private:
  std::string context_;
  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

}  // namespace headroom
