#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/added_tokens.hpp"
#include "text/normalizer.hpp"
#include "text/pre_tokenizer.hpp"
#include "text/token_model.hpp"
#include "text/tokenizer.hpp"
#include "text/vocabulary.hpp"

namespace headroom {

enum class Side : std::uint8_t { kLeft, kRight };

/// The parts of a tokenizer, independent of their files.
struct TokenizerParts {
  std::string source;     // the file that defines the steps, for messages
  Vocabulary vocabulary;  // including added tokens
  std::vector<AddedToken> added;
  NormalizerPtr normalizer;
  PreTokenizerPtr pre_tokenizer;
  std::unique_ptr<const TokenModel> model;
  std::vector<TokenId> before;  // precede the text, with special tokens
  std::vector<TokenId> behind;
  SpecialTokens special;
  std::optional<std::size_t> model_max_length;
  Side padding_side = Side::kRight;
  Side truncation_side = Side::kRight;  // the side at which ids are truncated

  // Derived from `added` by Tokenizer.
  std::optional<AddedTokens> raw_tokens;
  std::optional<AddedTokens> normalized_tokens;
};

}  // namespace headroom
