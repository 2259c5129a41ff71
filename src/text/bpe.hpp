#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/token_model.hpp"
#include "text/vocabulary.hpp"

namespace headroom {

struct BpeOptions {
  std::string end_of_word = "";  ///< appended to a word's last character before the lookup: CLIP's "</w>"
  std::optional<TokenId> unknown =
      /// for a character that is not in the vocabulary; without it, the character is dropped
      std::nullopt;
  bool fuse_unknown = false;       ///< consecutive unknown characters become one token
  bool whole_words_first = false;  ///< a word that is a piece becomes that piece, ignoring the merges
};

/// Byte pair encoding (Sennrich, Haddow and Birch, 2016). Repeatedly joins two adjacent symbols of a word: the
/// leftmost pair of the earliest merge that applies, until none applies. O(n log n) in the word's length.
class Bpe final : public TokenModel {
 public:
  using Merge = std::pair<std::string, std::string>;
  /// `merges` are in order. Throws Error, with `context`, if a merge's parts or result are not in the vocabulary.
  Bpe(const Vocabulary& vocabulary, std::span<const Merge> merges, BpeOptions options, std::string_view context);

  void encode(std::string_view word, std::vector<TokenId>& ids) const override;

 private:
  struct Rule {
    std::int32_t rank;
    TokenId merged;
  };
  struct Symbol;
  struct Candidate;

  [[nodiscard]] const Rule* find_rule(TokenId left, TokenId right) const;
  [[nodiscard]] std::vector<Symbol> symbols_of(std::string_view word) const;
  void merge(std::vector<Symbol>& symbols) const;

  // single characters; those that end a word include the word's ending
  std::unordered_map<std::string, TokenId> initial_;
  std::unordered_map<std::string, TokenId> words_;  // for whole_words_first
  std::unordered_map<std::uint64_t, Rule> rules_;   // by the two ids
  BpeOptions options_;
};

}  // namespace headroom
