#pragma once

#include <string_view>
#include <vector>

#include "text/vocabulary.hpp"

namespace headroom {

/// The third step of a tokenizer: encodes a word as ids.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  /// Appends the ids of `word`, which is not empty.
  virtual void encode(std::string_view word, std::vector<TokenId>& ids) const = 0;
};

}  // namespace headroom
