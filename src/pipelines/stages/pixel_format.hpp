#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/tensors/host_tensor.hpp"

namespace headroom {

/// How images of a model that works on pixels are cut into tokens: `patch` x `patch` pixels of `channels`, in rows from
/// the top, ordered [row in patch, column in patch, channel], values in [-1, 1].
struct PixelFormat {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 1;
  std::int64_t patch = 1;

  /// Channels of a token.
  [[nodiscard]] std::int64_t token_channels() const { return patch * patch * channels; }
};

/// Throws Error, naming the context, where pixels do not divide into patches or there are other than 1 or 3 channels.
[[nodiscard]] PixelFormat parse_pixel_format(const nlohmann::json& json, const std::string& context);

/// Pixels [images, channels, height, width] f32 in [-1, 1] (unclamped) of latents [images, tokens, patch * patch *
/// channels].
[[nodiscard]] HostTensor unpatch(const HostTensor& latents, const PixelFormat& format);

}  // namespace headroom
