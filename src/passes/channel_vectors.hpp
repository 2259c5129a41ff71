#pragma once

#include "ir/fusion_rules.hpp"

namespace headroom {

/// The form of images in which the target runs a convolution of the graph fastest; any form will do without rules.
[[nodiscard]] ImageForm image_form_of(const Graph& graph, const Node& convolution, const Target& target);

/// The fraction, from 0 to 1, of the FLOPs of the graph's convolutions that have channels in full vectors.
[[nodiscard]] double share_on_full_vectors(const Graph& graph, const Target& target);
/// The same of convolutions that are fastest on channels-last images.
[[nodiscard]] double share_faster_channels_last(const Graph& graph, const Target& target);

}  // namespace headroom
