#include "models/transformers/dual_stream.hpp"

#include <cmath>

#include "models/attention.hpp"

namespace headroom {
namespace {

constexpr double kTimestepScale = 1000.0;  // timestep and guidance are given in [0, 1] and embedded in thousandths

/// AdaLN parameters of one norm and its residual branch, each [batch, 1, dim].
struct Modulation {
  ValueId shift, scale, gate;
};

}  // namespace

std::vector<EqualTexts> equal_texts(const std::vector<std::int64_t>& lengths) {
  std::vector<EqualTexts> groups;
  std::int64_t row = 0, token = 0;
  for (const std::int64_t length : lengths) {
    if (groups.empty() || groups.back().length != length)
      groups.push_back({.first = row, .first_token = token, .length = length});
    ++groups.back().rows;
    ++row;
    token += length;
  }
  return groups;
}

void DualStream::set_positions(ValueId txt_ids, ValueId img_ids, const std::vector<std::int64_t>& axes) {
  rotations_ = {rotation(b_.concat({txt_ids, img_ids}, 0), axes)};
}

void DualStream::set_positions(ValueId txt_ids, ValueId img_ids, const std::vector<std::int64_t>& axes,
                               const std::vector<EqualTexts>& texts) {
  texts_ = texts;
  rotations_.clear();
  const std::int64_t longest = b_.shape(txt_ids)[0];
  for (const EqualTexts& of : texts) {
    const ValueId own = of.length == longest ? txt_ids : b_.slice(txt_ids, 0, 0, of.length);
    rotations_.push_back(rotation(b_.concat({own, img_ids}, 0), axes));
  }
}

DualStream::Rotation DualStream::rotation(ValueId ids, const std::vector<std::int64_t>& axes) {
  const auto [cos, sin] = b_.rope_table(ids, axes, form_.rope_theta);
  return {cos, sin};
}

ValueId DualStream::linear(std::string_view name, ValueId x, std::int64_t out) {
  const auto scope = b_.scope(name);
  const ValueId w = weight("weight", {out, b_.shape(x)[-1]});
  return b_.linear(x, w, {.bias = form_.has_bias ? weight("bias", {out}) : kNoValue});
}

ValueId DualStream::embedder(std::string_view name, ValueId x) {
  const auto scope = b_.scope(name);
  return linear("linear_2", b_.silu(linear("linear_1", x, dim_)), dim_);
}

ValueId DualStream::time_embedder(std::string_view name, ValueId numbers) {
  return embedder(name, b_.timestep_embedding(numbers, form_.timestep_channels, kTimestepScale));
}

std::vector<ValueId> DualStream::modulations(const ModulationName& name, ValueId temb, int count) {
  const auto scope = b_.scope(name.module);
  const ValueId all = linear(name.linear, b_.silu(temb), count * dim_);  // [batch, count * dim]
  std::vector<ValueId> vectors = b_.chunk(all, count, 1);
  for (ValueId& vector : vectors) vector = b_.reshape(vector, {b_.shape(vector)[0], 1, dim_});
  return vectors;
}

ValueId DualStream::modulated_norm(std::string_view name, ValueId x, ValueId scale, ValueId shift) {
  const auto scope = b_.scope(name);
  return b_.add(b_.mul(b_.layer_norm(x, form_.eps), b_.add_scalar(scale, 1.0)), shift);
}

ValueId DualStream::gated_residual(ValueId residual, ValueId gate, ValueId x) {
  return b_.add(residual, b_.mul(gate, x));
}

/// [batch, tokens, dim] -> [batch, heads, tokens, head_dim]
ValueId DualStream::to_heads(ValueId x) {
  const Shape& shape = b_.shape(x);
  const ValueId heads = b_.reshape(x, {shape[0], shape[1], heads_, head_dim_});
  return b_.transpose(heads, {0, 2, 1, 3});
}

ValueId DualStream::normed_heads(std::string_view norm, ValueId x) {
  const ValueId heads = to_heads(x);
  const auto scope = b_.scope(norm);
  return b_.rms_norm(heads, weight("weight", {head_dim_}), form_.eps);
}

DualStream::Heads DualStream::projections(const ProjectionNames& names, ValueId x) {
  const ValueId q = linear(names.q, x, dim_);
  const ValueId k = linear(names.k, x, dim_);
  return {q, k, linear(names.v, x, dim_)};
}

DualStream::Heads DualStream::split(const ProjectionNames& names, const Heads& x) {
  return {normed_heads(names.norm_q, x.q), normed_heads(names.norm_k, x.k), to_heads(x.v)};
}

DualStream::Heads DualStream::project(const ProjectionNames& names, ValueId x) {
  return split(names, projections(names, x));
}

ValueId DualStream::attention(const Heads& heads) { return attention(heads, rotations_.front()); }

ValueId DualStream::attention_of(const ProjectionNames& names, const Heads& projections) {
  return attention(split(names, projections));
}

ValueId DualStream::attention(const Heads& heads, const Rotation& rotation) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(head_dim_));
  const ValueId q = b_.mul_scalar(b_.rope(heads.q, rotation.cos, rotation.sin), scale);
  const ValueId k = b_.rope(heads.k, rotation.cos, rotation.sin);
  const ValueId scores = b_.matmul(q, k, /*transpose_b=*/true);    // [batch, heads, tokens, tokens]
  const ValueId context = b_.matmul(b_.softmax(scores), heads.v);  // [batch, heads, tokens, head_dim]
  const ValueId tokens = b_.transpose(context, {0, 2, 1, 3});      // [batch, tokens, heads, head_dim]
  return b_.reshape(tokens, {b_.shape(tokens)[0], b_.shape(tokens)[1], dim_});
}

ValueId DualStream::attention_in(const std::vector<Span>& windows, const Heads& heads, const Rotation& rotation) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(head_dim_));
  const ValueId q = b_.rope(heads.q, rotation.cos, rotation.sin), k = b_.rope(heads.k, rotation.cos, rotation.sin);
  if (windows.empty()) return attention_of_heads(b_, q, k, heads.v, scale);
  std::vector<ValueId> parts;
  for (const Span& window : windows) {
    const auto own = [&](ValueId x) { return b_.slice(x, 2, window.first, window.size); };
    parts.push_back(attention_of_heads(b_, own(q), own(k), own(heads.v), scale));  // [1, window's tokens, dim]
  }
  return b_.concat(parts, 1);
}

ValueId DualStream::attention_of_rows(const Heads& heads, const std::vector<Rotation>& rotations) {
  std::vector<ValueId> parts;
  for (const Rotation& rotation : rotations) {
    const auto own = [&](ValueId x) { return b_.slice(x, 0, std::ssize(parts), 1); };
    parts.push_back(attention_in({}, {own(heads.q), own(heads.k), own(heads.v)}, rotation));  // [1, tokens, dim]
  }
  return b_.concat(parts, 0);
}

ValueId DualStream::gated(ValueId x) {
  const std::vector<ValueId> halves = b_.chunk(x, 2, b_.shape(x).rank() - 1);
  return b_.mul(b_.silu(halves[0]), halves[1]);
}

ValueId DualStream::feed_forward(std::string_view name, ValueId x) {
  const auto scope = b_.scope(name);
  if (form_.gated_width != 0) return linear("linear_out", gated(linear("linear_in", x, 2 * form_.gated_width)), dim_);
  return linear("net.2", b_.gelu(linear("net.0.proj", x, 4 * dim_)), dim_);
}

std::pair<ValueId, ValueId> DualStream::block(const StreamNames& image_names, const StreamNames& text_names,
                                              ValueId image, ValueId text, ValueId temb) {
  const std::vector<ValueId> image_mod = modulations(image_names.modulation, temb, 6);
  std::vector<ValueId> text_mod = modulations(text_names.modulation, temb, 6);
  // Vectors are sliced, not temb: matmuls that read one value are merged, for texts of any lengths the same ones.
  if (!texts_.empty())
    for (ValueId& vector : text_mod) vector = b_.slice(vector, 0, 0, 1);
  return block(image_names, text_names, image, text, image_mod, text_mod);
}

std::pair<ValueId, ValueId> DualStream::block(const StreamNames& image_names, const StreamNames& text_names,
                                              ValueId image, ValueId text, const std::vector<ValueId>& image_mod,
                                              const std::vector<ValueId>& text_mod) {
  const Modulation image_attn{image_mod[0], image_mod[1], image_mod[2]},
      image_mlp{image_mod[3], image_mod[4], image_mod[5]};
  const Modulation text_attn{text_mod[0], text_mod[1], text_mod[2]}, text_mlp{text_mod[3], text_mod[4], text_mod[5]};

  const ValueId image_in = modulated_norm(image_names.norm1, image, image_attn.scale, image_attn.shift);
  const ValueId text_in = modulated_norm(text_names.norm1, text, text_attn.scale, text_attn.shift);
  const auto [image_out, text_out] = joint_attention(image_names, text_names, image_in, text_in);
  image = gated_residual(image, image_attn.gate, image_out);
  text = gated_residual(text, text_attn.gate, text_out);

  const ValueId image_ff = feed_forward(image_names.feed_forward,
                                        modulated_norm(image_names.norm2, image, image_mlp.scale, image_mlp.shift));
  const ValueId text_ff =
      feed_forward(text_names.feed_forward, modulated_norm(text_names.norm2, text, text_mlp.scale, text_mlp.shift));
  return {gated_residual(image, image_mlp.gate, image_ff), gated_residual(text, text_mlp.gate, text_ff)};
}

std::pair<ValueId, ValueId> DualStream::joint_attention(const StreamNames& image_names, const StreamNames& text_names,
                                                        ValueId image, ValueId text) {
  const auto scope = b_.scope("attn");
  if (!texts_.empty()) {
    const Heads image_projections = projections(image_names.projection, image);
    const auto [image_context, text_context] =
        attention_by_length(image_names, text_names, image_projections, projections(text_names.projection, text));
    const ValueId image_out = linear(image_names.out, image_context, dim_);
    return {image_out, linear(text_names.out, text_context, dim_)};
  }
  const std::int64_t text_tokens = b_.shape(text)[1];
  const std::int64_t image_tokens = b_.shape(image)[1];
  const Heads of_image = project(image_names.projection, image);
  const Heads of_text = project(text_names.projection, text);
  const Heads joint{b_.concat({of_text.q, of_image.q}, 2), b_.concat({of_text.k, of_image.k}, 2),
                    b_.concat({of_text.v, of_image.v}, 2)};
  const ValueId context = attention(joint);  // [batch, text + image tokens, dim]
  const ValueId image_out = linear(image_names.out, b_.slice(context, 1, text_tokens, image_tokens), dim_);
  const ValueId text_out = linear(text_names.out, b_.slice(context, 1, 0, text_tokens), dim_);
  return {image_out, text_out};
}

/// The joint attention of each request over its own text and image: [batch, image tokens, dim] and
/// [1, text tokens, dim].
std::pair<ValueId, ValueId> DualStream::attention_by_length(const StreamNames& image_names,
                                                            const StreamNames& text_names, const Heads& image,
                                                            const Heads& text) {
  const std::int64_t image_tokens = b_.shape(image.q)[1];
  std::vector<ValueId> image_parts, text_parts;
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    const EqualTexts& of = texts_[i];
    const std::int64_t tokens = of.rows * of.length;
    const auto of_image = [&](ValueId x) { return b_.slice(x, 0, of.first, of.rows); };
    const auto of_text = [&](ValueId x) {
      return b_.reshape(b_.slice(x, 1, of.first_token, tokens), {of.rows, of.length, dim_});
    };
    const Heads t = split(text_names.projection, {of_text(text.q), of_text(text.k), of_text(text.v)});
    const Heads m = split(image_names.projection, {of_image(image.q), of_image(image.k), of_image(image.v)});
    const Heads joint{b_.concat({t.q, m.q}, 2), b_.concat({t.k, m.k}, 2), b_.concat({t.v, m.v}, 2)};
    const ValueId context = attention(joint, rotations_[i]);  // [rows, text + image tokens, dim]
    image_parts.push_back(b_.slice(context, 1, of.length, image_tokens));
    text_parts.push_back(b_.reshape(b_.slice(context, 1, 0, of.length), {1, tokens, dim_}));
  }
  return {b_.concat(image_parts, 0), b_.concat(text_parts, 1)};
}

ValueId DualStream::head(ValueId x, ValueId temb, std::int64_t out) {
  const std::vector<ValueId> mod = modulations({"norm_out", "linear"}, temb, 2);  // scale first, unlike in the blocks
  return linear("proj_out", modulated_norm("norm_out", x, mod[0], mod[1]), out);
}

}  // namespace headroom
