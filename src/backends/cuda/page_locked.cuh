#pragma once

#include <cstddef>
#include <memory>

#include "backends/page_locked.hpp"

namespace headroom::cuda {

[[nodiscard]] std::unique_ptr<PageLockedMemory> lock_pages(std::size_t bytes);

}  // namespace headroom::cuda
