#pragma once

#include <compare>
#include <cstddef>

#include "base/tensors/divide_up.hpp"

namespace headroom {

/// An address in device memory: a buffer's handle in its backend (an address on a CPU and on CUDA), and an offset.
struct DevicePointer {
  void* buffer = nullptr;
  std::size_t offset = 0;  ///< in bytes

  /// The raw address, on backends whose handles are addresses.
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

/// Device memory owned by someone else.
struct DeviceMemory {
  DevicePointer at;
  std::size_t bytes = 0;
};

/// The alignment of the parts of a workspace in bytes: that of buffers on a GPU, and a multiple of it on a CPU.
inline constexpr std::size_t kPartAlignment = 256;
/// The size of a part of a workspace, after which the next one is aligned.
[[nodiscard]] constexpr std::size_t part_bytes(std::size_t bytes) { return round_up(bytes, kPartAlignment); }

}  // namespace headroom
