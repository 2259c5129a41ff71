#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/tensors/host_tensor.hpp"

namespace headroom {

/// How images of a model that works on pixels are cut into tokens: patches of `patch` x `patch` pixels with
/// `channels` channels, row by row from the top. The order in a token is [row in patch, column in patch, channel];
/// values are in [-1, 1].
struct PixelFormat {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 1;
  std::int64_t patch = 1;

  /// Channels of a token.
  [[nodiscard]] std::int64_t token_channels() const { return patch * patch * channels; }
};

/// Throws Error that names the context if pixels do not divide into patches, or if there are not 1 or 3 channels.
[[nodiscard]] PixelFormat parse_pixel_format(const nlohmann::json& json, const std::string& context);

/// Converts latents [images, tokens, patch * patch * channels] to pixels [images, channels, height, width] f32 in
/// [-1, 1], unclamped.
[[nodiscard]] HostTensor unpatch(const HostTensor& latents, const PixelFormat& format);

}  // namespace headroom
