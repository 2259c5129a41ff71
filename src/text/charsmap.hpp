#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// SentencePiece's precompiled character map (nmt_nfkc and others): strings and their replacements. Its bytes are
/// the size of a double-array trie (Darts-clone), the trie, and the replacements, each ended by a NUL.
class Charsmap {
 public:
  /// No bytes give an empty map. Throws Error, with `context`, for an invalid map.
  Charsmap(std::string_view bytes, std::string_view context);

  struct Match {
    std::size_t bytes;             ///< of the replaced text
    std::string_view replacement;  ///< may be empty
  };
  /// The shortest string of the map that is a prefix of `text`. Throws Error if the string or its replacement cuts
  /// a character.
  [[nodiscard]] std::optional<Match> shortest_prefix(std::string_view text) const;

 private:
  std::string context_;
  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

}  // namespace headroom
