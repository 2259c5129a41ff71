#include "models/unets/unet.hpp"

#include <cmath>
#include <utility>

#include "base/error.hpp"

namespace headroom {
namespace {

class UNet {
 public:
  UNet(Builder& builder, const UNetConfig& config, ValueId time, const Attend& attend, const ParamSource& params)
      : b_(builder),
        config_(config),
        widths_(config.block_out_channels),
        time_(time),
        attend_(attend),
        layers_(builder, params, config.norm(), config.time_norm) {}

  ValueId forward(ValueId x) {
    if (config_.center_input_sample) x = b_.add_scalar(b_.mul_scalar(x, 2), -1);
    x = layers_.conv("conv_in", x, widths_.front(), 3, 1);
    skips_.push_back(x);
    for (std::size_t level = 0; level < widths_.size(); ++level) x = down(level, x);
    if (config_.has_mid_block) x = middle(x);
    for (std::size_t level = widths_.size(); level-- > 0;) x = up(level, x);
    HR_CHECK(skips_.empty());
    return layers_.conv("conv_out", layers_.norm_silu("conv_norm_out", x), config_.out_channels, 3, 1);
  }

 private:
  /// Every result of a level, the smaller image included, is a skip connection.
  ValueId down(std::size_t level, ValueId x) {
    const auto scope = b_.scope("down_blocks." + std::to_string(level));
    for (std::int64_t j = 0; j < config_.layers_per_block[level]; ++j)
      skips_.push_back(x = layer(j, level, x, config_.down_attends[level]));
    if (level + 1 < widths_.size()) skips_.push_back(x = layers_.downsample(x, config_.downsample_padding));
    return x;
  }

  ValueId middle(ValueId x) {
    const auto scope = b_.scope("mid_block");
    const std::size_t level = widths_.size() - 1;
    x = layers_.resnet("resnets.0", x, widths_[level], time_);
    if (config_.mid_attends) x = attend_({.name = "attentions.0", .level = level, .is_middle = true}, x);
    return layers_.resnet("resnets.1", x, widths_[level], time_);
  }

  ValueId up(std::size_t level, ValueId x) {
    const auto scope = b_.scope("up_blocks." + std::to_string(widths_.size() - 1 - level));
    for (std::int64_t j = 0; j <= config_.layers_per_block[level]; ++j)
      x = layer(j, level, b_.concat({x, pop_skip()}, 1), config_.up_attends[level]);
    if (level == 0) return x;
    const Shape& skip = b_.shape(skips_.back());  // odd sizes are halved rounding up
    return layers_.upsample(x, {skip[2], skip[3]}, widths_[config_.upsample_narrows ? level - 1 : level]);
  }

  ValueId layer(std::int64_t j, std::size_t level, ValueId x, bool attends) {
    x = layers_.resnet("resnets." + std::to_string(j), x, widths_[level], time_);
    return attends ? attend_({.name = "attentions." + std::to_string(j), .level = level}, x) : x;
  }

  ValueId pop_skip() {
    const ValueId skip = skips_.back();
    skips_.pop_back();
    return skip;
  }

  Builder& b_;
  const UNetConfig& config_;
  const std::vector<std::int64_t>& widths_;
  ValueId time_;  // SiLU of the time embedding, [b, time_embed_dim]
  const Attend& attend_;
  ImageLayers layers_;
  std::vector<ValueId> skips_;  // skip connections of the encoder, the last on top
};

}  // namespace

ValueId build_unet(Builder& builder, const UNetConfig& config, ValueId sample, ValueId time, const Attend& attend,
                   const ParamSource& params) {
  return UNet(builder, config, builder.silu(time), attend, params).forward(sample);
}

ValueId time_sinusoids(Builder& builder, const UNetConfig& config, ValueId t, std::int64_t dim) {
  // 10000^(-i / (half - shift)) is also a power of -i / half, with another period.
  const auto half = static_cast<double>(dim) / 2;
  const double period = std::pow(10000.0, half / (half - static_cast<double>(config.freq_shift)));
  const ValueId both = builder.emit(Op::kTimestepEmbedding, {t}, {{attr::kDim, dim}, {attr::kMaxPeriod, period}})[0];
  if (config.flip_sin_to_cos) return both;
  const std::vector<ValueId> halves = builder.chunk(both, 2, 1);  // cosines and sines
  return builder.concat({halves[1], halves[0]}, 1);
}

ValueId time_embedding(Builder& builder, const UNetConfig& config, std::string_view name, ValueId x,
                       const ParamSource& params) {
  const auto scope = builder.scope(name);
  ImageLayers layers(builder, params);
  const ValueId hidden = builder.silu(layers.linear("linear_1", x, config.time_embed_dim()));
  return layers.linear("linear_2", hidden, config.time_embed_dim());
}

}  // namespace headroom
