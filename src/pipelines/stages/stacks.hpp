#pragma once

#include <span>
#include <vector>

#include "base/tensors/host_tensor.hpp"

namespace headroom {

/// Stacks at least one tensor [1, ...] of equal shapes to [n, ...]; unstack() is the inverse.
[[nodiscard]] HostTensor stack(std::span<const HostTensor> parts);
[[nodiscard]] std::vector<HostTensor> unstack(const HostTensor& whole);

}  // namespace headroom
