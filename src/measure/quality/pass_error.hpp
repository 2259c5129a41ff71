#pragma once

#include <span>
#include <vector>

#include "base/tensors/host_tensor.hpp"
#include "run/forward_pass.hpp"
#include "run/session/session.hpp"

namespace headroom {

/// The outputs of a pass that has run: all outputs of a network, in the graph's order, or the shown pixels of a
/// stream's frame.
[[nodiscard]] std::vector<HostTensor> pass_outputs(const ForwardPass& pass, const Session& session);

/// The largest relative L2 error of an output: 0 if none differs, NaN if an output holds one. Throws Error if shapes
/// or the numbers of outputs differ.
[[nodiscard]] double pass_error(std::span<const HostTensor> outputs, std::span<const HostTensor> expected);

}  // namespace headroom
