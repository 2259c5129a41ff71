#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe.hpp"
#include "text/readers/tokenizer_config.hpp"
#include "text/tokenizer_parts.hpp"

namespace headroom {

/// A vocabulary without the other properties of its tokenizer.
struct BytePairs {
  Vocabulary vocabulary;
  std::vector<Bpe::Merge> merges;
  std::string merges_context;  ///< their place, in messages
};

/// Two pieces separated by a space; empty for another text.
[[nodiscard]] std::optional<Bpe::Merge> split_merge(std::string_view text);
/// A tokenizer of the class that `config` names (CLIPTokenizer, Qwen2Tokenizer or GPT2Tokenizer), whose steps are built
/// in. Sets the defaults of `config`. Throws Error, with `context`, for another class and for what does not fit.
[[nodiscard]] TokenizerParts make_byte_pairs(BytePairs pairs, TokenizerConfig& config, const std::string& context);

/// Reads a tokenizer from `vocab.json` and `merges.txt`. If `config` names no class, it is CLIP's if "<|startoftext|>"
/// is the first token of a text, else GPT-2's. Sets the class and the defaults of `config`.
[[nodiscard]] TokenizerParts read_vocab_and_merges(const std::filesystem::path& folder, TokenizerConfig& config);

}  // namespace headroom
