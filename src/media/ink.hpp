#pragma once

#include "media/image.hpp"

namespace headroom {

/// A print of an RGB image in five inks, which models/live-ink learned to make: each pixel's smoothed brightness falls softly onto
/// one of five tones, and the dark sides of edges, where a difference of Gaussians is negative, become contours of the darkest. The
/// formula is bench/live_ink.py's `ink`. Throws std::logic_error for another image.
[[nodiscard]] Image print_in_ink(const Image& image);

}  // namespace headroom
