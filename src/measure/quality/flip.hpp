#pragma once

#include <cstdint>
#include <span>

namespace headroom {

/// Default pixels per degree of visual angle for flip(): a display 0.7 m wide with 3840 pixels across, viewed from
/// 0.7 m, as in the paper.
inline constexpr double kFlipPixelsPerDegree = 67.0206;

/// Mean FLIP error of a picture: how large the difference looks to an observer who alternates between the two
/// pictures on a display, from 0 (none) to 1. Andersson, Nilsson, Akenine-Moller, Oskarsson, Astrom, Fairchild,
/// "FLIP: A Difference Evaluator for Alternating Images", HPG 2020; the formulas are those of sections 4.1 and 4.2.
/// No trained weights.
///
/// Both pictures are [channels, height, width] f32, sRGB in [-1, 1]; values outside are clamped. One channel is grey,
/// three are red, green and blue. Throws Error for other channels, sizes that do not match, a NaN or infinity, and
/// pixels_per_degree that is not positive.
[[nodiscard]] double flip(std::span<const float> reference, std::span<const float> picture, std::int64_t channels,
                          std::int64_t height, std::int64_t width, double pixels_per_degree = kFlipPixelsPerDegree);

}  // namespace headroom
