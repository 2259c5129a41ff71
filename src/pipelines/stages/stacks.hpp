#pragma once

#include <span>
#include <vector>

#include "base/tensors/host_tensor.hpp"

namespace headroom {

/// [1, ...] of equal shapes, at least one, to [n, ...], and back.
[[nodiscard]] HostTensor stack(std::span<const HostTensor> parts);
[[nodiscard]] std::vector<HostTensor> unstack(const HostTensor& whole);

}  // namespace headroom
