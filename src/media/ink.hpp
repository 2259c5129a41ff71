#pragma once

#include "media/image.hpp"

namespace headroom {

/// Prints an RGB image in five inks, the task that models/live-ink learned. Each pixel's smoothed brightness is
/// mapped softly to one of five tones. The dark sides of edges, where a difference of Gaussians is negative, become
/// contours in the darkest tone. The formula is `ink` in bench/live_ink.py. Throws std::logic_error for other
/// images.
[[nodiscard]] Image print_in_ink(const Image& image);

}  // namespace headroom
