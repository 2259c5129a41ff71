#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "media/video/video.hpp"

namespace headroom {

/// Videos without files: a test picture that is made here, and a place where frames go that nobody wants.
///   test:WIDTHxHEIGHT@FPS:FRAMES  a moving test picture, as "test:512x512@60:1000"; without ":FRAMES" it never ends
///   scene:SIDExSIDE@FPS:FRAMES    a textured ground and shapes that move over it, through a camera with noise (media/video/made_scene.hpp)
///   null:                         takes all, and keeps nothing
[[nodiscard]] bool is_test_video(std::string_view name);
[[nodiscard]] bool is_null_video(std::string_view name);

/// Throws a usage Error for a name that is not of that form.
[[nodiscard]] std::unique_ptr<VideoReader> open_test_video(const std::string& name);
[[nodiscard]] std::unique_ptr<VideoWriter> make_null_video();

/// Frame `number` of the test picture: bars of colour that move by a pixel a frame, a disc that goes round once in 120 frames, and along
/// the lower edge the number as 24 bits, black and white, the lowest on the right, by which a frame is known again.
void draw_test_frame(const VideoFormat& format, std::int64_t number, std::span<std::uint8_t> rgb);
/// The number that is drawn in a frame, as far as one reads it after the frame was changed a little.
[[nodiscard]] std::int64_t number_of_test_frame(const VideoFormat& format, std::span<const std::uint8_t> rgb);

}  // namespace headroom
