#pragma once

#include <cstddef>

#include "base/target.hpp"

namespace headroom {

/// Device memory that belongs to somebody else.
struct DeviceMemory {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

/// What the addresses of a device's buffers are multiples of, and kernels count on.
[[nodiscard]] constexpr std::size_t buffer_alignment(DeviceKind device) {
  return device == DeviceKind::kCpu ? 64 : 256;
}

}  // namespace headroom
