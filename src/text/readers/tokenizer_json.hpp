#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "text/tokenizer_parts.hpp"
#include "text/unigram.hpp"

namespace headroom {

/// Reads a `tokenizer.json` (the file of the library `tokenizers`) with a BPE or a Unigram model. Throws Error naming
/// the key for whatever it does not know, because that might change the ids. Its "truncation" and "padding" are
/// defaults of calls and not read.
[[nodiscard]] TokenizerParts read_tokenizer_json(const std::filesystem::path& path);

/// The pieces of its "model". Throws Error where that is no Unigram model.
[[nodiscard]] std::vector<UnigramPiece> parse_unigram_pieces(const nlohmann::json& model, const std::string& context);
/// Its "added_tokens", into `parts`.
void parse_added_tokens(const nlohmann::json& file, const std::string& context, TokenizerParts& parts);

}  // namespace headroom
