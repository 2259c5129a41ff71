#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "models/component.hpp"

namespace headroom {

inline constexpr std::string_view kT5Encoder = "T5EncoderModel";

/// The configuration of a T5 encoder, under the names of transformers' T5Config.
struct T5Config {
  std::int64_t vocab_size = 32128;
  std::int64_t d_model = 512;
  std::int64_t d_kv = 64;  ///< per head
  std::int64_t d_ff = 2048;
  std::int64_t num_layers = 6;
  std::int64_t num_heads = 8;
  std::int64_t relative_attention_num_buckets = 32;
  std::int64_t relative_attention_max_distance = 128;
  double layer_norm_epsilon = 1e-6;
  Op activation = Op::kRelu;  ///< of feed_forward_proj
  bool is_gated = false;

  /// Width of all heads together; need not be d_model.
  [[nodiscard]] std::int64_t inner_dim() const { return num_heads * d_kv; }
};

/// Reads config.json as written by transformers for a `T5EncoderModel`. Throws Error that names the key and the value
/// for another class or an unknown activation.
[[nodiscard]] T5Config parse_t5_config(const nlohmann::json& config);
/// The configuration of T5 v1.1 XXL, a prompt encoder of FLUX.1: 4.76 billion parameters.
[[nodiscard]] nlohmann::json t5_xxl_config();

/// The row of the position bias table for a key `distance` tokens after its query. The second half of the rows is for
/// keys after the query, the first for the others. Within each half, the first half of the rows has one distance
/// each, and the others cover logarithmically growing ranges (Raffel et al., "Exploring the limits of transfer
/// learning with a unified text-to-text transformer", 2020, section 2.1).
[[nodiscard]] std::int64_t t5_position_bucket(const T5Config& config, std::int64_t distance);

/// The encoder of transformers' T5EncoderModel in plain ops: ids[batch, tokens] -> last_hidden_state[batch, tokens,
/// d_model]. `mask` [batch, tokens], i32, is 0 for masked tokens; without one (kNoValue) all are visible.
[[nodiscard]] ValueId build_t5_encoder(Builder& builder, const T5Config& config, ValueId ids, ValueId mask,
                                       const ParamSource& params);

/// Its pass: `encode` maps `input_ids`, and `attention_mask` if it is given, to `last_hidden_state`.
[[nodiscard]] ComponentClass t5_encoder_class();

}  // namespace headroom
