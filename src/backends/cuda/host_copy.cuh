#pragma once

#include <cstddef>
#include <memory>

#include "backends/backend.hpp"

namespace headroom::cuda {

/// A host copy in page-locked memory. Throws Error if the host is out of memory.
[[nodiscard]] std::unique_ptr<HostCopy> make_host_copy(std::size_t bytes);

}  // namespace headroom::cuda
