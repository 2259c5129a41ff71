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

/// A piece of a Unigram model; its id is its place.
struct UnigramPiece {
  std::string text;
  double score = 0;       ///< the logarithm of its probability
  bool is_normal = true;  ///< it may be found in a text, and its score counts for what an unknown character costs
  bool is_user_defined = false;  ///< it is found wherever it stands, for next to nothing
};

struct UnigramOptions {
  std::optional<TokenId> unknown = std::nullopt;  ///< without it, an unknown character is an Error
  bool byte_fallback = false;  ///< an unknown character becomes the pieces "<0x00>" to "<0xFF>" of its bytes
  /// Whether sums of scores are rounded as SentencePiece does it, which has them in float; `tokenizers` has them in
  /// double. Where two ways to split a text are about as likely, this decides.
  bool single_precision = false;
};

/// A unigram language model (Kudo, 2018): of all ways to split a word into pieces the likeliest, by Viterbi's
/// algorithm, in time proportional to the word's length. Unknown characters in a row are one unknown token.
class Unigram final : public TokenModel {
 public:
  /// Throws Error, with `context`, where options and pieces do not fit.
  Unigram(const std::vector<UnigramPiece>& pieces, UnigramOptions options, std::string_view context);

  void encode(std::string_view word, std::vector<TokenId>& ids) const override;

 private:
  struct Step;
  [[nodiscard]] std::vector<Step> best_steps(std::string_view word) const;
  [[nodiscard]] double round(double sum) const;
  void append_unknown(std::string_view characters, std::vector<TokenId>& ids) const;

  PieceTrie trie_;
  std::vector<double> scores_;  // by id
  std::vector<bool> is_user_defined_;
  double unknown_score_ = 0;
  double highest_score_ = 0;
  std::array<TokenId, 256> byte_ids_{};  // where bytes fall back to pieces
  UnigramOptions options_;
};

}  // namespace headroom
