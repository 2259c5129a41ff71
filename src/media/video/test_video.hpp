#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "media/video/video.hpp"

namespace headroom {

/// Videos without files: generated test videos, and an output that discards frames.
///  test:WIDTHxHEIGHT@FPS:FRAMES  a moving test image, as "test:512x512@60:1000"; endless without ":FRAMES"
///  scene:SIDExSIDE@FPS:FRAMES    a textured ground with moving shapes and camera noise
///  (media/video/made_scene.hpp)
///  null:                         accepts all frames and discards them
[[nodiscard]] bool is_test_video(std::string_view name);
[[nodiscard]] bool is_null_video(std::string_view name);

/// Throws a usage Error for a name that is not of that form.
[[nodiscard]] std::unique_ptr<VideoReader> open_test_video(const std::string& name);
[[nodiscard]] std::unique_ptr<VideoWriter> make_null_video();

/// Frame `number` of the test image: colour bars that move by a pixel per frame, a disc that circles once in 120
/// frames, and the number along the lower edge. The number is drawn as 24 black and white bits, the lowest on the
/// right, so that a frame can be recognized.
void draw_test_frame(const VideoFormat& format, std::int64_t number, std::span<std::uint8_t> rgb);
/// The number drawn in a frame; readable even if the frame was changed a little.
[[nodiscard]] std::int64_t number_of_test_frame(const VideoFormat& format, std::span<const std::uint8_t> rgb);

}  // namespace headroom
