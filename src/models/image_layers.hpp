#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "models/params.hpp"

namespace headroom {

/// Conditioning of a residual block on time: it adds a vector to the channels, or scales and shifts them after the
/// second norm.
enum class TimeNorm : bool { kAdd, kScaleShift };

/// Parameters of a group norm.
struct ImageNorm {
  std::int64_t groups = 32;
  double eps = 1e-6;
};

/// Image layers that diffusers' networks share, in plain ops. They map x[b, c, h, w] to the same shape unless stated
/// otherwise. A name is that of the layer below the builder's path, under which its params are found.
class ImageLayers {
 public:
  ImageLayers(Builder& builder, const ParamSource& params, ImageNorm norm = {}, TimeNorm time_norm = TimeNorm::kAdd)
      : b_(builder), params_(params), norm_(norm), time_norm_(time_norm) {}

  /// A convolution with a square filter and a bias -> [b, out, ...]
  ValueId conv(std::string_view name, ValueId x, std::int64_t out, std::int64_t side, Builder::Convolution how);
  /// The same with stride 1 and `padding` zeros around the image.
  ValueId conv(std::string_view name, ValueId x, std::int64_t out, std::int64_t side, std::int64_t padding = 0);
  /// x[..., in] -> [..., out]
  ValueId linear(std::string_view name, ValueId x, std::int64_t out, bool has_bias = true);
  ValueId norm(std::string_view name, ValueId x, ImageNorm how);
  ValueId norm(std::string_view name, ValueId x) { return norm(name, x, norm_); }
  /// x[..., c], over its last axis
  ValueId layer_norm(std::string_view name, ValueId x, double eps);
  ValueId norm_silu(std::string_view name, ValueId x) { return b_.silu(norm(name, x)); }

  /// `ResnetBlock2D` (He et al., "Deep residual learning for image recognition", 2016, with the time as in Ho et al.,
  /// "Denoising diffusion probabilistic models", 2020): x + two convolutions of x, [b, c, h, w] -> [b, width, h, w].
  /// `time` is the SiLU of the time embedding, [b, d], or kNoValue.
  ValueId resnet(std::string_view name, ValueId x, std::int64_t width, ValueId time = kNoValue);
  /// Halves height and width. Without padding, a row and a column of zeros are added below and on the right.
  ValueId downsample(ValueId x, std::int64_t padding);
  /// Nearest-neighbour resize to that height and width, then a convolution -> [b, width, ...]
  ValueId upsample(ValueId x, std::array<std::int64_t, 2> size, std::int64_t width);
  /// x + self-attention over its pixels, with a group norm first if `how` is set.
  ValueId pixel_attention(std::string_view name, ValueId x, std::int64_t heads, std::optional<ImageNorm> how);

  /// [b, c, h, w] -> [b, h w, c]
  ValueId to_tokens(ValueId x);
  /// [b, h w, c] -> [b, c, h, w] with the height and width of `image`
  ValueId to_image(ValueId tokens, const Shape& image);

 private:
  /// A linear; checkpoints from before 2023 call it `old`.
  ValueId projection(std::string_view name, std::string_view old, ValueId x);
  ValueId param(std::string_view name, const Shape& shape) { return read_param(b_, params_, name, shape); }

  Builder& b_;
  const ParamSource& params_;
  ImageNorm norm_;
  TimeNorm time_norm_;
};

}  // namespace headroom
