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
  std::vector<TextReading> readings;    ///< at least one
  std::int64_t tokens = 0;              ///< ids of a prompt, with padding; 0 if the request decides
  std::string before = {}, after = {};  ///< the template around a text
  std::int64_t dropped_tokens = 0;      ///< ids at the beginning whose states the denoiser does not read
  /// Whether the denoiser reads as many states of every text. Otherwise it reads those that the text has, and the
  /// encoder, which must be causal, reads ids filled up on the right to a multiple of kTextStep.
  bool pads = true;
  /// Texts that are not padded to one length are padded to a multiple of this, if it is not 0, and the denoiser reads
  /// the states of the padding too.
  std::int64_t pad_multiple = 0;
  /// Without a text the denoiser reads zeros, otherwise the embeddings of an empty text.
  bool no_text_is_zeros = false;

  /// The ids of a text [1, n] i32, of which the denoiser reads `most` states at most: truncated, and padded if `pads`.
  /// Throws Error for invalid UTF-8.
  [[nodiscard]] HostTensor tokenize(std::string_view text, std::int64_t most) const;
  /// The number of states of the whole text that the denoiser could read.
  [[nodiscard]] std::int64_t count_tokens(std::string_view text) const;
  /// The ids that the encoder is compiled for if it reads this many.
  [[nodiscard]] std::int64_t encoder_ids(std::int64_t ids) const;
};

/// Encoders of texts that are not padded are compiled for these lengths, so that a few serve all texts.
inline constexpr std::int64_t kTextStep = 64;

/// The input of an encoder for the number of ids of a padded text that are the text's own.
inline constexpr const char* kTextTokens = "text_tokens";

/// Throws Error if the tokenizer at a place has ids without an embedding in the encoder; it then belongs to
/// another model.
void require_vocabulary(const Tokenizer& tokenizer, const std::filesystem::path& place, const Component& encoder);

}  // namespace headroom
