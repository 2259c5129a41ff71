#pragma once

#include <string_view>

#include "media/image.hpp"
#include "media/video/video.hpp"

namespace headroom {

/// Throws Error, which begins with `name`, where an extent or the rate is less than 1, or a frame has more than
/// kMostPixels, which nothing is allocated for.
void check_video_format(std::string_view name, const VideoFormat& format);

}  // namespace headroom
