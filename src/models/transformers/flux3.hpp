#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "ir/builder.hpp"
#include "models/component.hpp"
#include "models/transformers/flux2.hpp"

namespace headroom {

/// The `_class_name` of FLUX.3's transformer.
inline constexpr std::string_view kFlux3Transformer = "Flux3Transformer2DModel";

/// The configuration of a `Flux3Transformer2DModel`, under the names of its config.json.
struct Flux3Config {
  std::int64_t in_channels = 128;
  std::int64_t cond_in_channels = 128;  ///< of a reference
  std::int64_t num_layers = 5;          ///< blocks of each of text, image and references, which see only themselves
  std::int64_t num_single_layers = 28;  ///< blocks over [text, image, references]
  std::int64_t attention_head_dim = 128;
  std::int64_t num_attention_heads = 24;
  std::int64_t joint_attention_dim = 20'480;  ///< of encoder_hidden_states
  std::int64_t timestep_channels = 256;
  double mlp_ratio = 3;
  std::vector<std::int64_t> axes_dims_rope = {32, 32, 32, 32};
  double rope_theta = 10'000;
  double eps = 1e-6;
  bool flow_map = false;  ///< a distilled model, which also reads the timestep after each step

  /// Width of the token stream.
  [[nodiscard]] std::int64_t dim() const { return attention_head_dim * num_attention_heads; }
  [[nodiscard]] std::int64_t feed_forward_width() const {
    return static_cast<std::int64_t>(static_cast<double>(dim()) * mlp_ratio);
  }
};

/// Reads config.json as written by diffusers; a missing key means the class's default. Throws Error that names the key
/// and the value for another class, or sizes that do not fit each other.
[[nodiscard]] Flux3Config parse_flux3_config(const nlohmann::json& config);
/// FLUX.3 [klein] image: 3 x 5 and 28 blocks of 24 heads x 128, 5.5 billion parameters; the distilled model, and base.
[[nodiscard]] nlohmann::json flux3_klein_config();
[[nodiscard]] nlohmann::json flux3_klein_base_config();

/// The tensors of one forward pass, as diffusers names them.
struct Flux3Inputs {
  ValueId hidden_states;  ///< [batch, image tokens, in_channels]
  /// [batch, text tokens, joint_attention_dim]; with text_lengths [1, tokens of all texts, joint_attention_dim].
  ValueId encoder_hidden_states = kNoValue;
  /// Instead of it: the text after its own blocks, [batch or 1, text tokens, dim].
  ValueId text_states = kNoValue;
  ValueId timestep;                             ///< [batch], in [0, 1]; with text_lengths all equal
  ValueId img_ids;                              ///< [image tokens, axes]
  ValueId txt_ids;                              ///< [text tokens, axes]; of the longest text
  ValueId target_timestep = kNoValue;           ///< [batch]; if the configuration has flow_map
  ValueId image_cond_hidden_states = kNoValue;  ///< references [n, tokens, cond_in_channels], for n rows each in turn
  ValueId image_cond_ids = kNoValue;            ///< [tokens, axes]
  /// Of each row, if texts differ in length.
  std::vector<std::int64_t> text_lengths = {};
};

/// The transformer of FLUX.3 (Black Forest Labs, 2026), equal to diffusers' Flux3Transformer2DModel, in plain ops.
/// Text, image and references each go through blocks of their own, then together through joint ones. All blocks of a
/// kind share one modulation: the image's is of its timestep, the others' of timestep 0, and in a flow map all depend
/// on the target's. Returns `sample` [batch, image tokens, in_channels].
[[nodiscard]] ValueId build_flux3(Builder& builder, const Flux3Config& config, const Flux3Inputs& inputs,
                                  const ParamSource& params);

/// The text of a flow map after its own blocks in all steps at once, which depends on no latents: target timesteps
/// [steps, batch] -> [steps, batch, text tokens, dim]; with text_lengths [steps, 1, tokens of all texts, dim]. Of
/// `inputs` it reads the text.
[[nodiscard]] ValueId build_flux3_text(Builder& builder, const Flux3Config& config, const Flux3Inputs& inputs,
                                       ValueId targets, const ParamSource& params);

/// Its passes are `forward`, and `forward-references` with references.
[[nodiscard]] ComponentClass flux3_transformer_class();

}  // namespace headroom
