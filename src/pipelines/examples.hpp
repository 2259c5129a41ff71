#pragma once

#include <string_view>

/// Models that help texts use as examples.
namespace headroom::examples {

inline constexpr std::string_view kShipped = "fashion-flux";  ///< with its checkpoint
inline constexpr std::string_view kLarge = "flux-dev";        ///< with random weights
inline constexpr std::string_view kDecoder = "flux-vae";      ///< with random weights
inline constexpr std::string_view kFolder = "FLUX.1-dev";     ///< in diffusers' layout
inline constexpr std::string_view kStream = "sd-turbo";       ///< likewise; it takes frames of a stream

}  // namespace headroom::examples
