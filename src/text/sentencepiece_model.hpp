#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "text/unigram.hpp"

namespace headroom {

/// How SentencePiece prepares a text (NormalizerSpec, and of TrainerSpec what concerns it).
struct SentencepieceRules {
  std::string charsmap;  ///< bytes for a Charsmap
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  bool whitespace_as_suffix = false;
};

/// A Unigram model as SentencePiece trains it (ModelProto, sentencepiece_model.proto).
struct SentencepieceModel {
  std::vector<UnigramPiece> pieces;
  UnigramOptions options;
  SentencepieceRules rules;
};

/// Reads a `spiece.model`. Throws Error where it is broken, or is no Unigram model.
[[nodiscard]] SentencepieceModel read_sentencepiece_model(const std::filesystem::path& path);

}  // namespace headroom
