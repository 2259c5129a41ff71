#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/piece_trie.hpp"
#include "text/regex.hpp"
#include "text/vocabulary.hpp"

namespace headroom {

/// A token that is found in the text before any other step: "<|im_start|>".
struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool strips_left = false;    ///< includes the white space before it
  bool strips_right = false;   ///< and after it
  bool is_normalized = false;  ///< searched in the normalized text, in its own normalized form
};

/// Finds added tokens from front to back, the longest of those that begin at a position.
class AddedTokens {
 public:
  /// Returns the text to search for: a token's content, or its normalized form.
  using Form = std::function<std::string(const AddedToken&)>;
  AddedTokens(const std::vector<AddedToken>& tokens, const Form& form);

  struct Part {
    Span span;
    const AddedToken* token = nullptr;  ///< null for the text between tokens
  };
  /// Splits the whole of `text`; no part is empty.
  [[nodiscard]] std::vector<Part> split(std::string_view text) const;

 private:
  std::vector<AddedToken> tokens_;
  PieceTrie trie_;  // maps to indices of tokens_
};

}  // namespace headroom
