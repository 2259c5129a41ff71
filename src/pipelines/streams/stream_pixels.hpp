#pragma once

#include <functional>

#include "ir/builder.hpp"
#include "pipelines/request.hpp"
#include "run/session/session.hpp"

namespace headroom {

/// Converts the pixels of a frame to an image for the network: 8-bit RGB, top row first, u8 [height, width, 3]
/// becomes f32 [1, 3, height, width] in [-1, 1].
[[nodiscard]] ValueId build_image_of_pixels(Builder& builder, ValueId pixels);
/// The inverse: clamps to [-1, 1] and rounds to nearest.
[[nodiscard]] ValueId build_pixels_of_image(Builder& builder, ValueId image);

/// Names in the graph of a frame.
inline constexpr const char* kFramePixels = "pixels";      ///< input: the camera's image
inline constexpr const char* kShownPixels = "shown";       ///< output
inline constexpr const char* kIsRepeated = "is_repeated";  ///< output of a stream with a similarity filter: bool

/// Computes the image to show from the camera's image.
using FrameBody = std::function<ValueId(Builder& builder, ValueId image)>;

/// A frame of a live stream, from pixels to pixels, as one graph. With `is_filtered`, frames that hardly changed are
/// skipped (Kodaira et al., "StreamDiffusion", 2023, section 3.3). If c is the cosine of a frame and the last
/// computed one, the last output is repeated with probability 1 - (1 - c) / (1 - threshold), at most a given number
/// of times in a row. Random draws are a function of the seed and the frame's number. A skipped frame costs only the
/// comparison, and changes no state of the body.
[[nodiscard]] Graph build_stream_frame(std::string name, const ImageSize& size, bool is_filtered,
                                       const FrameBody& body);

struct SimilarityFilter {
  double threshold = 0;  ///< below 1; 0 or less skips none
  std::int64_t most_in_row = 10;
  std::uint64_t seed = 0;
};
/// Sets the inputs of a filter. A no-op for a session without one.
void set_similarity_filter(Session& session, const SimilarityFilter& filter);
/// Starts a stream again: its first frame is never skipped. A no-op for a session without a filter.
void start_similarity_filter(Session& session);

}  // namespace headroom
