#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "models/params.hpp"

namespace headroom {

/// Rows of a batch that follow each other and whose texts are of one length.
struct EqualTexts {
  std::int64_t first = 0, rows = 0;
  std::int64_t first_token = 0, length = 0;  ///< of each text; the first token counts those of all texts before
};
/// The rows of a batch, by their texts' lengths.
[[nodiscard]] std::vector<EqualTexts> equal_texts(const std::vector<std::int64_t>& lengths);

/// Layers of transformers whose text and image tokens are two streams with separate weights and joint attention (Esser
/// et al., "Scaling Rectified Flow Transformers", 2024), in plain ops. A name is that of the layer below the builder's
/// path, under which its params are found.
class DualStream {
 public:
  /// What models have in different forms; the values are those of FLUX.1 and Qwen-Image.
  struct Form {
    bool has_bias = true;
    std::int64_t gated_width = 0;  ///< of feed-forward layers with SwiGLU; 0: with GELU, four times as wide as tokens
    std::int64_t timestep_channels = 256;
    double eps = 1e-6;
    double rope_theta = 10'000;
  };
  DualStream(Builder& builder, const ParamSource& params, std::int64_t heads, std::int64_t head_dim)
      : DualStream(builder, params, heads, head_dim, Form()) {}
  DualStream(Builder& builder, const ParamSource& params, std::int64_t heads, std::int64_t head_dim, const Form& form)
      : b_(builder), params_(params), heads_(heads), head_dim_(head_dim), dim_(heads * head_dim), form_(form) {}

  /// Queries, keys and values of one stream, [batch, heads, tokens, head_dim].
  struct Heads {
    ValueId q, k, v;
  };
  struct ProjectionNames {
    std::string_view q, k, v, norm_q, norm_k;
  };
  /// The layer that computes vectors of AdaLN: SiLU, then the linear `linear` in `module`.
  struct ModulationName {
    std::string_view module, linear;
  };
  /// The layers of one stream in a block.
  struct StreamNames {
    ModulationName modulation;
    std::string_view norm1, norm2, feed_forward;
    ProjectionNames projection;
    std::string_view out;
  };

  /// The rotary positions of the attention, from the ids [tokens, axes] of text and image.
  void set_positions(ValueId txt_ids, ValueId img_ids, const std::vector<std::int64_t>& axes);
  /// The same for texts of several lengths; txt_ids are those of the longest. The text stream is [1, tokens, dim], one
  /// text after the other without padding. Its layers do not know of requests, and attention is that of each request
  /// over its own text and image.
  void set_positions(ValueId txt_ids, ValueId img_ids, const std::vector<std::int64_t>& axes,
                     const std::vector<EqualTexts>& texts);

  /// The cosines and sines of positions, [tokens, head_dim / 2].
  struct Rotation {
    ValueId cos, sin;
  };
  [[nodiscard]] Rotation rotation(ValueId ids, const std::vector<std::int64_t>& axes);

  /// x[..., in] -> [..., out], with a bias if the model has biases.
  ValueId linear(std::string_view name, ValueId x, std::int64_t out);
  /// linear_1, SiLU, linear_2: the embedding of each conditioning signal, [batch, in] -> [batch, dim].
  ValueId embedder(std::string_view name, ValueId x);
  /// The embedding of numbers[batch] in [0, 1], [batch, dim].
  ValueId time_embedder(std::string_view name, ValueId numbers);
  /// The `count` vectors that AdaLN computes from temb, each [batch, 1, dim].
  std::vector<ValueId> modulations(const ModulationName& name, ValueId temb, int count);
  /// layer_norm(x) * (1 + scale) + shift
  ValueId modulated_norm(std::string_view name, ValueId x, ValueId scale, ValueId shift);
  ValueId gated_residual(ValueId residual, ValueId gate, ValueId x);
  /// silu(first half) * second half of x[..., 2 width], [..., width].
  ValueId gated(ValueId x);
  /// The two layers of a token alone, by the model's form: x[batch, tokens, dim] -> the same.
  ValueId feed_forward(std::string_view name, ValueId x);
  /// Projections with a norm of queries and keys per head.
  Heads project(const ProjectionNames& names, ValueId x);
  /// softmax(rope(q) rope(k)^T / sqrt(head_dim)) v, [batch, heads, tokens, head_dim] -> [batch, tokens, dim]
  ValueId attention(const Heads& heads);
  /// Tokens next to each other in a stream.
  struct Span {
    std::int64_t first, size;
  };
  /// The same with other positions. The tokens of each window attend to themselves, in a batch of one; without windows,
  /// those of each row of the batch.
  ValueId attention_in(const std::vector<Span>& windows, const Heads& heads, const Rotation& rotation);
  /// The same of rows of a batch with positions of their own.
  ValueId attention_of_rows(const Heads& heads, const std::vector<Rotation>& rotations);
  /// The same of queries, keys and values before they are split, [batch, tokens, dim]; the norms are those of `names`.
  ValueId attention_of(const ProjectionNames& names, const Heads& projections);
  /// A block with joint attention over [text, image]; all other layers are separate per stream. `temb` has a row for
  /// each of the image's batch; a text stream of several lengths takes its first. Returns image and text.
  std::pair<ValueId, ValueId> block(const StreamNames& image_names, const StreamNames& text_names, ValueId image,
                                    ValueId text, ValueId temb);
  /// The same with the vectors that AdaLN computes, six for each stream: (shift, scale, gate) of the attention, and
  /// of the feed-forward layer. Names of modulations are not read.
  std::pair<ValueId, ValueId> block(const StreamNames& image_names, const StreamNames& text_names, ValueId image,
                                    ValueId text, const std::vector<ValueId>& image_mod,
                                    const std::vector<ValueId>& text_mod);
  /// The norm and projection after the last block, [batch, tokens, out].
  ValueId head(ValueId x, ValueId temb, std::int64_t out);

 private:
  /// Queries, keys and values before they are split, [batch, tokens, dim].
  Heads projections(const ProjectionNames& names, ValueId x);
  Heads split(const ProjectionNames& names, const Heads& x);
  ValueId attention(const Heads& heads, const Rotation& rotation);
  std::pair<ValueId, ValueId> attention_by_length(const StreamNames& image_names, const StreamNames& text_names,
                                                  const Heads& image, const Heads& text);
  ValueId weight(std::string_view name, const Shape& shape) { return read_param(b_, params_, name, shape); }
  ValueId to_heads(ValueId x);
  ValueId normed_heads(std::string_view norm, ValueId x);
  std::pair<ValueId, ValueId> joint_attention(const StreamNames& image_names, const StreamNames& text_names,
                                              ValueId image, ValueId text);

  Builder& b_;
  const ParamSource& params_;
  std::int64_t heads_, head_dim_, dim_;
  Form form_;
  std::vector<EqualTexts> texts_;    // empty if all are of one length
  std::vector<Rotation> rotations_;  // by them, or a single one
};

}  // namespace headroom
