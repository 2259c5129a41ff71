#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "text/unigram.hpp"

namespace headroom {

/// The parts of a Unigram model by SentencePiece (ModelProto, sentencepiece_model.proto) that tokenizers of
/// transformers use. SentencePiece's own text preparation is ignored, as in transformers.
struct SentencepieceModel {
  std::vector<UnigramPiece> pieces;
  std::string charsmap;  ///< bytes for a Charsmap; may be empty
};

/// Reads a `spiece.model`. Throws Error if it is broken, or not a Unigram model.
[[nodiscard]] SentencepieceModel read_sentencepiece_model(const std::filesystem::path& path);

}  // namespace headroom
