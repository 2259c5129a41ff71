#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/piece_trie.hpp"
#include "text/token_model.hpp"
#include "text/vocabulary.hpp"

namespace headroom {

/// A piece of a Unigram model; its id is its index.
struct UnigramPiece {
  std::string text;
  double score = 0;  ///< log probability
};

struct UnigramOptions {
  std::optional<TokenId> unknown = std::nullopt;  ///< without it, an unknown character is an Error
  bool byte_fallback = false;  ///< an unknown character becomes the pieces "<0x00>" to "<0xFF>" of its bytes
};

/// A unigram language model (Kudo, 2018): splits a word into the most likely pieces by Viterbi's algorithm, in time
/// proportional to the word's length. Consecutive unknown characters become one unknown token.
class Unigram final : public TokenModel {
 public:
  /// Throws Error, with `context`, if options and pieces do not fit, or if a piece is too long.
  Unigram(const std::vector<UnigramPiece>& pieces, UnigramOptions options, std::string_view context);

  void encode(std::string_view word, std::vector<TokenId>& ids) const override;

 private:
  struct Step;
  [[nodiscard]] std::vector<Step> best_steps(std::string_view word) const;
  void append_unknown(std::string_view characters, std::vector<TokenId>& ids) const;

  PieceTrie trie_;
  std::vector<double> scores_;  // by id
  double unknown_score_ = 0;
  std::array<TokenId, 256> byte_ids_{};  // for the byte fallback
  UnigramOptions options_;
  std::string context_;
};

}  // namespace headroom
