#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "text/unigram.hpp"

namespace headroom {

/// A Unigram model as SentencePiece trains it (ModelProto, sentencepiece_model.proto): what tokenizers of transformers take
/// from it. How SentencePiece itself would prepare a text is left aside, as it is there.
struct SentencepieceModel {
  std::vector<UnigramPiece> pieces;
  std::string charsmap;  ///< bytes for a Charsmap; perhaps empty
};

/// Reads a `spiece.model`. Throws Error where it is broken, or is no Unigram model.
[[nodiscard]] SentencepieceModel read_sentencepiece_model(const std::filesystem::path& path);

}  // namespace headroom
