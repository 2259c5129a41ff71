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

/// A tensor that an encoder makes of a text, and where it goes.
struct TextReading {
  std::string output;  ///< of the encoder's pass, [1, ...]: "pooler_output"
  std::string input;   ///< of the denoise loop, [batch, ...], that it becomes: "pooled_projections"
};

/// A tokenizer and what stands behind it: what makes of a prompt the tensors that a denoiser is given.
struct TextReader {
  std::string encoder;  ///< the part that reads, and its stage: "text_encoder_2"
  std::string pass;     ///< of the encoder: "encode"
  Tokenizer tokenizer;
  std::vector<TextReading> readings;  ///< at least one
  std::int64_t tokens = 0;            ///< ids of a prompt, with padding; 0 where the request says
  bool no_text_is_zeros = false;      ///< what the denoiser is given in place of a text; else it is an empty one's

  /// Ids of a text [1, count] i32, truncated and padded. Throws Error where it is not UTF-8.
  [[nodiscard]] HostTensor tokenize(std::string_view text, std::int64_t count) const;
  /// How many ids the whole text has.
  [[nodiscard]] std::int64_t count_tokens(std::string_view text) const;
};

/// Throws Error where the tokenizer of that folder has ids that the encoder has no embedding for: it is another model's.
void require_vocabulary(const Tokenizer& tokenizer, const std::filesystem::path& folder, const Component& encoder);

}  // namespace headroom
