#pragma once

#include <cstddef>
#include <memory>

#include "backends/backend.hpp"

namespace headroom::cuda {

/// In page-locked memory. Throws Error where the host has none left.
[[nodiscard]] std::unique_ptr<HostCopy> make_host_copy(std::size_t bytes);

}  // namespace headroom::cuda
