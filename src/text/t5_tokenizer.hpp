#pragma once

#include <filesystem>

#include "text/readers/tokenizer_config.hpp"
#include "text/tokenizer_parts.hpp"

/// T5's tokenizer as transformers 5 builds it, which is what diffusers' pipelines get: the pieces, the character map and the
/// added tokens of the folder's file, and steps of its own. Characters are mapped, words lie between white space, each
/// begins with U+2581 and is split by the Unigram model, whose unknown token has the id 2; "</s>" stands behind a text.
/// The normalizer, pre-tokenizer and post-processor that the file itself names are not used, nor is what SentencePiece does.
namespace headroom {

/// Of a `tokenizer.json`. Sets the defaults of `config`.
[[nodiscard]] TokenizerParts read_t5_json(const std::filesystem::path& path, TokenizerConfig& config);

/// Of a `spiece.model`, whose pieces "<extra_id_99>" to "<extra_id_0>" follow. Sets the defaults of `config`.
[[nodiscard]] TokenizerParts read_t5_spiece(const std::filesystem::path& path, TokenizerConfig& config);

}  // namespace headroom
