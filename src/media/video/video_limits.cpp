#include "media/video/video_limits.hpp"

#include <cstdint>

#include "base/error.hpp"

namespace headroom {

void check_video_format(std::string_view name, const VideoFormat& format) {
  if (format.width < 1 || format.height < 1)
    fail("{} has frames of {} by {} pixels; expected 1 by 1 at least", name, format.width, format.height);
  if (format.rate.numerator < 1 || format.rate.denominator < 1)
    fail("{} has a rate of {}/{} frames a second; expected more than none", name, format.rate.numerator,
         format.rate.denominator);
  check_pixel_count(name, static_cast<std::uint64_t>(format.width), static_cast<std::uint64_t>(format.height),
                    kMostPixels);
}

}  // namespace headroom
