#pragma once

#include <functional>

#include "ir/builder.hpp"
#include "pipelines/request.hpp"
#include "run/session/session.hpp"

namespace headroom {

/// The pixels of a live stream's frame are 8-bit RGB, top row first, u8 [height, width, 3]; networks have images, f32 [1, 3, height,
/// width] in [-1, 1].
[[nodiscard]] ValueId build_image_of_pixels(Builder& builder, ValueId pixels);
/// The other way: what lies beyond is clamped, and the rest rounded to the nearest.
[[nodiscard]] ValueId build_pixels_of_image(Builder& builder, ValueId image);

/// Names of the graph of a frame.
inline constexpr const char* kFramePixels = "pixels";      ///< input: what the camera sees
inline constexpr const char* kShownPixels = "shown";       ///< output
inline constexpr const char* kIsRepeated = "is_repeated";  ///< output of a stream with a similarity filter: bool

/// What a frame shows, made of the image that the camera sees.
using FrameBody = std::function<ValueId(Builder& builder, ValueId image)>;

/// A frame of a live stream, from pixels to pixels, as one graph. With `is_filtered` frames that hardly changed are skipped (Kodaira
/// et al., "StreamDiffusion", 2023, section 3.3): where the cosine of a frame and the last one that was worked on is c, the last output is
/// shown again with probability 1 - (1 - c) / (1 - threshold), but at most so many times in a row. Draws are a function of seed and
/// number of the frame. What is skipped costs no more than the comparison, and no state of the body changes.
[[nodiscard]] Graph build_stream_frame(std::string name, const ImageSize& size, bool is_filtered,
                                       const FrameBody& body);

struct SimilarityFilter {
  double threshold = 0;  ///< below 1; 0 or less skips none
  std::int64_t most_in_row = 10;
  std::uint64_t seed = 0;
};
/// Sets the inputs of a filter. A no-op for a session without one.
void set_similarity_filter(Session& session, const SimilarityFilter& filter);
/// Begins a stream anew: its first frame is never skipped. A no-op for a session without a filter.
void start_similarity_filter(Session& session);

}  // namespace headroom
