#pragma once

#include <string_view>

#include "media/image.hpp"
#include "media/video/video.hpp"

namespace headroom {

/// Throws Error, which begins with `name`, if an extent or the rate is less than 1, or if a frame has more than
/// kMostPixels; nothing is allocated then.
void check_video_format(std::string_view name, const VideoFormat& format);

}  // namespace headroom
