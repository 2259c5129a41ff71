#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "models/component.hpp"

namespace headroom {

inline constexpr std::string_view kGpt2 = "GPT2LMHeadModel";

/// The configuration of GPT-2, under the names of transformers' GPT2Config.
struct Gpt2Config {
  std::int64_t vocab_size = 50257;
  std::int64_t n_positions = 1024;
  std::int64_t n_embd = 768;
  std::int64_t n_layer = 12;
  std::int64_t n_head = 12;
  std::int64_t n_inner = 0;  ///< width of the MLP: 4 n_embd unless given
  double layer_norm_epsilon = 1e-5;
  Op activation = Op::kGeluTanh;
  bool scale_attn_weights = true;
  bool tie_word_embeddings = true;
};

/// Reads config.json as written by transformers for a `GPT2LMHeadModel`. Throws Error that names the key and the value
/// for another class, for sizes that do not fit each other, or for variants that are not supported.
[[nodiscard]] Gpt2Config parse_gpt2_config(const nlohmann::json& config);

/// The configurations by which training is compared, with 1024 positions and a vocabulary of 50304.
[[nodiscard]] nlohmann::json gpt_125m_config();
[[nodiscard]] nlohmann::json gpt_350m_config();
[[nodiscard]] nlohmann::json gpt_1_3b_config();
[[nodiscard]] nlohmann::json gpt_6_7b_config();

/// The decoder of Radford et al., "Language models are unsupervised multitask learners" (2019), in plain ops, for
/// ids[batch, tokens]: the logits of the next token, [batch, tokens, vocab_size].
[[nodiscard]] ValueId build_gpt2(Builder& builder, const Gpt2Config& config, ValueId ids, const ParamSource& params);

/// Its pass is `forward`: `input_ids` -> `logits`.
[[nodiscard]] ComponentClass gpt2_class();

}  // namespace headroom
