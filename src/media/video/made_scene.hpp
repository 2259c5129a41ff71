#pragma once

#include <cstdint>

#include "media/image.hpp"

/// Procedural videos without files, from formulas and a seed, equal on every machine. bench/live_ink.py generates
/// the same videos (up to rounding) to train models/live-ink.
namespace headroom {

/// Frame `frame` of the clip with that seed: a textured ground under a camera that drifts, turns and zooms, and
/// five moving shapes.
[[nodiscard]] Image draw_scene(std::uint32_t seed, std::int64_t frame, int side);

/// Adds camera noise: normal noise with this standard deviation, as a share of white, rounded to 8 bits. The noise
/// depends only on seed and frame.
[[nodiscard]] Image add_camera_noise(const Image& image, double deviation, std::uint64_t seed, std::int64_t frame);

}  // namespace headroom
