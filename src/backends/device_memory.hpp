#pragma once

#include <compare>
#include <cstddef>

#include "base/target.hpp"

namespace headroom {

/// A place in device memory: the buffer it lies in, as its backend names it (an address on a CPU and on CUDA), and how
/// far into that.
struct DevicePointer {
  void* buffer = nullptr;
  std::size_t offset = 0;  ///< in bytes

  /// Where buffers have addresses: the place's own.
  template <class T = void>
  [[nodiscard]] T* address() const noexcept {
    return static_cast<T*>(static_cast<void*>(static_cast<std::byte*>(buffer) + offset));
  }
  [[nodiscard]] explicit operator bool() const noexcept { return buffer != nullptr; }
  [[nodiscard]] friend DevicePointer operator+(DevicePointer at, std::size_t bytes) noexcept {
    return {at.buffer, at.offset + bytes};
  }
  /// By buffer, and within it by offset.
  friend auto operator<=>(const DevicePointer&, const DevicePointer&) = default;
};

/// Device memory that belongs to somebody else.
struct DeviceMemory {
  DevicePointer at;
  std::size_t bytes = 0;
};

/// What the addresses of a device's buffers are multiples of, and kernels count on.
[[nodiscard]] constexpr std::size_t buffer_alignment(DeviceKind device) {
  return device == DeviceKind::kCpu ? 64 : 256;
}

}  // namespace headroom
