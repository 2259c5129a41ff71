#pragma once

#include <filesystem>

#include "text/readers/tokenizer_config.hpp"
#include "text/tokenizer_parts.hpp"

namespace headroom {

/// Reads a tokenizer from `vocab.json` and `merges.txt`, which hold only the vocabulary. `config` names its class
/// (CLIPTokenizer, Qwen2Tokenizer or GPT2Tokenizer). Without a class, it is CLIP's if "<|startoftext|>" is the
/// first token of a text, else GPT-2's. The other properties of these tokenizers are built in. Sets the defaults of
/// `config`.
[[nodiscard]] TokenizerParts read_vocab_and_merges(const std::filesystem::path& folder, TokenizerConfig& config);

}  // namespace headroom
