#pragma once

#include <span>
#include <vector>

#include "base/tensors/host_tensor.hpp"
#include "run/forward_pass.hpp"
#include "run/session/session.hpp"

namespace headroom {

/// What a pass that has run made: all outputs of a network, in the graph's order, and of a frame of a stream the pixels
/// that are shown.
[[nodiscard]] std::vector<HostTensor> pass_outputs(const ForwardPass& pass, const Session& session);

/// The largest relative L2 error of an output: 0 where none differs, NaN where there is one. Throws Error where
/// shapes or their number differ.
[[nodiscard]] double pass_error(std::span<const HostTensor> outputs, std::span<const HostTensor> expected);

}  // namespace headroom
