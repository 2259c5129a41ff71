#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.hpp"

namespace headroom {

/// What a GGUF file says of its tokenizer in the metadata `tokenizer.ggml.*`, as llama.cpp's converter writes them.
/// Texts are views of the file.
struct GgufVocabulary {
  std::string_view model;                ///< "gpt2" (byte pairs), "t5" (Unigram)
  std::string_view pre;                  ///< the splitter of byte pairs: "qwen2", "gpt-2"
  std::vector<std::string_view> tokens;  ///< by id
  std::vector<std::int64_t> types;  ///< of tokens: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte
  std::vector<double> scores;       ///< of Unigram
  std::vector<std::string_view> merges;  ///< of byte pairs: "a b"
  std::string charsmap;                  ///< bytes for a Charsmap, of Unigram; may be empty
  std::optional<std::int64_t> end, padding;
};

/// The tokenizer of transformers with this vocabulary: Qwen2Tokenizer, GPT2Tokenizer or T5Tokenizer. Throws Error, with
/// `context`, for other models and splitters, and for values that do not fit together.
[[nodiscard]] Tokenizer make_tokenizer(const GgufVocabulary& stored, const std::string& context);

}  // namespace headroom
