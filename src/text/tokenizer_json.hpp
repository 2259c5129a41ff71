#pragma once

#include <filesystem>

#include "text/tokenizer_parts.hpp"

namespace headroom {

/// Reads a `tokenizer.json` (the file of the library `tokenizers`) with a BPE or a Unigram model. Throws Error naming
/// the key for whatever it does not know, because that might change the ids. Its "truncation" and "padding" are
/// defaults of calls and not read.
[[nodiscard]] TokenizerParts read_tokenizer_json(const std::filesystem::path& path);

}  // namespace headroom
