#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensors/host_tensor.hpp"
#include "run/component.hpp"
#include "text/tokenizer.hpp"

namespace headroom {

/// An output of an encoder, and the denoiser input that reads it.
struct TextReading {
  std::string output;  ///< an output of the encoder's pass, [1, ...]: "pooler_output"
  std::string input;   ///< an input of the denoise loop, [batch, ...]: "pooled_projections"
};

/// A tokenizer and its encoder, which turn a prompt into inputs of the denoiser.
struct TextReader {
  std::string encoder;  ///< the encoder's part, which is also its stage: "text_encoder_2"
  std::string pass;     ///< the encoder's pass: "encode"
  Tokenizer tokenizer;
  std::vector<TextReading> readings;  ///< at least one
  std::int64_t tokens = 0;            ///< ids of a prompt, with padding; 0 if the request decides
  /// Without a text the denoiser reads zeros, otherwise the embeddings of an empty text.
  bool no_text_is_zeros = false;

  /// The ids of a text [1, count] i32, truncated and padded. Throws Error for invalid UTF-8.
  [[nodiscard]] HostTensor tokenize(std::string_view text, std::int64_t count) const;
  /// The number of ids of the whole text.
  [[nodiscard]] std::int64_t count_tokens(std::string_view text) const;
};

/// Throws Error if the tokenizer of the folder has ids without an embedding in the encoder; it then belongs to
/// another model.
void require_vocabulary(const Tokenizer& tokenizer, const std::filesystem::path& folder, const Component& encoder);

}  // namespace headroom
