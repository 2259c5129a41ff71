#pragma once

#include <cstdint>

#include "media/image.hpp"

/// Videos that need no file: made of formulas and a seed, the same on every machine. bench/live_ink.py makes the same ones (but for
/// roundings) to train models/live-ink on.
namespace headroom {

/// Frame `frame` of the clip of that seed: a textured ground under a camera that drifts, turns and zooms, and five shapes that move over it.
[[nodiscard]] Image draw_scene(std::uint32_t seed, std::int64_t frame, int side);

/// What a camera with noise makes of it: normal noise of that standard deviation, as a share of white, rounded to 8 bits. Its numbers
/// are a function of seed and frame.
[[nodiscard]] Image add_camera_noise(const Image& image, double deviation, std::uint64_t seed, std::int64_t frame);

}  // namespace headroom
