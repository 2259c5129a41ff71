#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "text/pre_tokenizer.hpp"

namespace headroom {

/// The token that begins every document of training data, as in GPT-2's vocabulary.
inline constexpr std::string_view kEndOfText = "<|endoftext|>";
/// The tokens that every trained vocabulary has: the end of a text, and one for each byte.
inline constexpr std::int64_t kBpeBaseTokens = 257;

/// Trains a byte-pair vocabulary (Sennrich, Haddow and Birch, "Neural machine translation of rare words with subword
/// units", 2016) on texts cut into GPT-2's words. Each step joins the most frequent pair of adjacent tokens of a word;
/// of equally frequent pairs, the one with the lowest ids. The order of texts does not matter. Vocabularies equal those
/// of the library `tokenizers` (BpeTrainer with the byte alphabet).
class BpeTrainer {
 public:
  /// Counts the words of `text`. Throws Error if it is not UTF-8.
  void add(std::string_view text);

  /// A tokenizer.json with at most `size` tokens, fewer if all words are single tokens before. kEndOfText has the id
  /// 0, the bytes follow in the order of their characters, then the joined pairs.
  [[nodiscard]] nlohmann::json train(std::size_t size) const;

 private:
  PreTokenizerPtr words_ = byte_level({});
  std::map<std::string, std::int64_t, std::less<>> counts_;  // by word, in GPT-2's alphabet
};

}  // namespace headroom
