#pragma once

#include <filesystem>

#include "text/normalizer.hpp"
#include "text/sentencepiece_model.hpp"
#include "text/tokenizer_config.hpp"
#include "text/tokenizer_parts.hpp"

namespace headroom {

/// What SentencePiece does to a text before it looks for pieces: characters are mapped, the longest match first, spaces
/// become U+2581, one is put in front, and further ones are left out.
[[nodiscard]] NormalizerPtr sentencepiece_normalizer(const SentencepieceModel& model, std::string_view context);

/// T5's tokenizer of its `spiece.model` alone: SentencePiece on what lies between special tokens, "</s>" behind, and
/// "<extra_id_0>" as the last of the ids behind the pieces. Sets the defaults of `config`.
[[nodiscard]] TokenizerParts read_spiece(const std::filesystem::path& path, TokenizerConfig& config);

}  // namespace headroom
