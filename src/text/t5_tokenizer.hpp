#pragma once

#include <filesystem>
#include <string>

#include "text/readers/sentencepiece_model.hpp"
#include "text/readers/tokenizer_config.hpp"
#include "text/tokenizer_parts.hpp"

/// T5's tokenizer as built by transformers 5 and used by diffusers' pipelines. It takes the pieces, the character
/// map and the added tokens from the folder's file; its steps are fixed. Characters are mapped, and words are split at
/// white space. Each word gets the prefix U+2581 and is split by the Unigram model, whose unknown token has the id 2.
/// "</s>" follows a text. The normalizer, pre-tokenizer and post-processor of the file are not used, and neither are
/// SentencePiece's own steps.
namespace headroom {

/// Reads a `tokenizer.json`. Sets the defaults of `config`.
[[nodiscard]] TokenizerParts read_t5_json(const std::filesystem::path& path, TokenizerConfig& config);

/// Reads a `spiece.model`, for make_t5().
[[nodiscard]] TokenizerParts read_t5_spiece(const std::filesystem::path& path, TokenizerConfig& config);
/// Appends the pieces "<extra_id_99>" to "<extra_id_0>". Sets the defaults of `config`. Throws Error with `context`.
[[nodiscard]] TokenizerParts make_t5(SentencepieceModel model, TokenizerConfig& config, const std::string& context);

}  // namespace headroom
