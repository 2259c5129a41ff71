#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "text/tokenizer_parts.hpp"
#include "text/unigram.hpp"

namespace headroom {

/// Reads a `tokenizer.json` (the file of the library `tokenizers`) with a BPE or a Unigram model. Throws Error with
/// the key for any unknown content, because it might change the ids. "truncation" and "padding" are defaults of
/// calls and are ignored.
[[nodiscard]] TokenizerParts read_tokenizer_json(const std::filesystem::path& path);

/// The pieces of its "model". Throws Error if it is not a Unigram model.
[[nodiscard]] std::vector<UnigramPiece> parse_unigram_pieces(const nlohmann::json& model, const std::string& context);
/// Reads its "added_tokens" into `parts`.
void parse_added_tokens(const nlohmann::json& file, const std::string& context, TokenizerParts& parts);

}  // namespace headroom
