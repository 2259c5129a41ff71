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

/// What a tokenizer is made of, whatever files it comes from.
struct TokenizerParts {
  std::string source;     // the file that names the steps, for messages
  Vocabulary vocabulary;  // added tokens among them
  std::vector<AddedToken> added;
  NormalizerPtr normalizer;
  PreTokenizerPtr pre_tokenizer;
  std::unique_ptr<const TokenModel> model;
  std::vector<TokenId> before;  // the text, where special tokens are added
  std::vector<TokenId> behind;
  SpecialTokens special;
  std::optional<std::size_t> model_max_length;
  Side padding_side = Side::kRight;
  Side truncation_side = Side::kRight;  // where ids are cut off

  // Made of `added` by Tokenizer.
  std::optional<AddedTokens> raw_tokens;
  std::optional<AddedTokens> normalized_tokens;
};

}  // namespace headroom
