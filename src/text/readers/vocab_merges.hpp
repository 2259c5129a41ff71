#pragma once

#include <filesystem>

#include "text/readers/tokenizer_config.hpp"
#include "text/tokenizer_parts.hpp"

namespace headroom {

/// A tokenizer of `vocab.json` and `merges.txt`, which hold no more than the vocabulary: `config` says whose it is
/// (CLIPTokenizer, Qwen2Tokenizer or GPT2Tokenizer; without a class, CLIP's where "<|startoftext|>" is the first token
/// of a text, else GPT-2's), and what that tokenizer does otherwise is known here. Sets the defaults of `config`.
[[nodiscard]] TokenizerParts read_vocab_and_merges(const std::filesystem::path& folder, TokenizerConfig& config);

}  // namespace headroom
