#include "models/image_layers.hpp"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "models/attention.hpp"

namespace headroom {

ValueId ImageLayers::conv(std::string_view name, ValueId x, std::int64_t out, std::int64_t side,
                          Builder::Convolution how) {
  const auto scope = b_.scope(name);
  const ValueId weight = param("weight", {out, b_.shape(x)[1], side, side}), bias = param("bias", {out});
  return b_.conv2d(x, weight, bias, how);
}

ValueId ImageLayers::conv(std::string_view name, ValueId x, std::int64_t out, std::int64_t side, std::int64_t padding) {
  return conv(name, x, out, side, Builder::evenly(1, padding));
}

ValueId ImageLayers::linear(std::string_view name, ValueId x, std::int64_t out, bool has_bias) {
  const auto scope = b_.scope(name);
  const ValueId weight = param("weight", {out, b_.shape(x)[-1]});
  return b_.linear(x, weight, {.bias = has_bias ? param("bias", {out}) : kNoValue});
}

ValueId ImageLayers::norm(std::string_view name, ValueId x, ImageNorm how) {
  const auto scope = b_.scope(name);
  const std::int64_t width = b_.shape(x)[1];
  const ValueId weight = param("weight", {width}), bias = param("bias", {width});
  return b_.group_norm(x, how.groups, how.eps, {.weight = weight, .bias = bias});
}

ValueId ImageLayers::layer_norm(std::string_view name, ValueId x, double eps) {
  const auto scope = b_.scope(name);
  const std::int64_t width = b_.shape(x)[-1];
  const ValueId weight = param("weight", {width}), bias = param("bias", {width});
  return b_.layer_norm(x, eps, {.weight = weight, .bias = bias});
}

ValueId ImageLayers::resnet(std::string_view name, ValueId x, std::int64_t width, ValueId time) {
  const auto scope = b_.scope(name);
  const std::int64_t batch = b_.shape(x)[0];
  // The shortcut to fewer channels first: x, the largest value, is then dead as soon as it is normalized.
  const ValueId residual = b_.shape(x)[1] == width ? x : conv("conv_shortcut", x, width, 1);
  const bool has_scale = time != kNoValue && time_norm_ == TimeNorm::kScaleShift;
  const std::int64_t channels = has_scale ? 2 * width : width;
  if (time != kNoValue) time = b_.reshape(linear("time_emb_proj", time, channels), {batch, channels, 1, 1});

  ValueId hidden = conv("conv1", norm_silu("norm1", x), width, 3, 1);  // [b, width, h, w]
  if (has_scale) {
    const std::vector<ValueId> halves = b_.chunk(time, 2, 1);  // scale and shift, [b, width, 1, 1]
    hidden = b_.add(b_.mul(norm("norm2", hidden), b_.add_scalar(halves[0], 1.0)), halves[1]);
  } else {
    hidden = norm("norm2", time == kNoValue ? hidden : b_.add(hidden, time));
  }
  return b_.add(residual, conv("conv2", b_.silu(hidden), width, 3, 1));
}

ValueId ImageLayers::downsample(ValueId x, std::int64_t padding) {
  Builder::Convolution how = Builder::evenly(2, padding);
  if (padding == 0) how.padding = {0, 0, 1, 1};
  return conv("downsamplers.0.conv", x, b_.shape(x)[1], 3, how);
}

ValueId ImageLayers::upsample(ValueId x, std::array<std::int64_t, 2> size, std::int64_t width) {
  const ValueId larger = [&] {
    const auto scope = b_.scope("upsamplers.0");
    return b_.resize2d(x, size);
  }();
  return conv("upsamplers.0.conv", larger, width, 3, 1);
}

ValueId ImageLayers::pixel_attention(std::string_view name, ValueId x, std::int64_t heads,
                                     std::optional<ImageNorm> how) {
  const auto scope = b_.scope(name);
  const Shape shape = b_.shape(x);
  const ValueId tokens = to_tokens(how ? norm("group_norm", x, *how) : x);  // [b, h w, c]
  const ValueId q = projection("to_q", "query", tokens), k = projection("to_k", "key", tokens);
  const ValueId v = projection("to_v", "value", tokens);
  const std::int64_t head_dim = shape[1] / heads;
  const double scale = 1 / std::sqrt(static_cast<double>(head_dim));
  const ValueId out = projection("to_out.0", "proj_attn", attention(b_, q, k, v, heads, scale));
  return b_.add(to_image(out, shape), x);
}

ValueId ImageLayers::to_tokens(ValueId x) {
  const Shape shape = b_.shape(x);
  return b_.transpose(b_.reshape(x, {shape[0], shape[1], shape[2] * shape[3]}), {0, 2, 1});
}

ValueId ImageLayers::to_image(ValueId tokens, const Shape& image) {
  const Shape shape = b_.shape(tokens);
  return b_.reshape(b_.transpose(tokens, {0, 2, 1}), {shape[0], shape[2], image[2], image[3]});
}

ValueId ImageLayers::projection(std::string_view name, std::string_view old, ValueId x) {
  const bool is_old = params_.has && params_.has(fmt::format("{}.{}.weight", b_.path(), old));
  return linear(is_old ? old : name, x, b_.shape(x)[-1]);
}

}  // namespace headroom
