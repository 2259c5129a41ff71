#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "backends/backend.hpp"

namespace headroom {

/// Page-locked host memory: a device copies to and from it at the rate of the link, without a staging copy.
class PageLockedMemory {
 public:
  virtual ~PageLockedMemory() = default;
  [[nodiscard]] virtual std::span<std::byte> bytes() const noexcept = 0;
};

/// An additional interface of backends whose device has memory of its own.
class PageLockingBackend {
 public:
  virtual ~PageLockingBackend() = default;
  /// Throws Error if the host is out of memory.
  [[nodiscard]] virtual std::unique_ptr<PageLockedMemory> lock_pages(std::size_t bytes) = 0;
  /// Copies from page-locked memory, which must not change until the copy is done.
  virtual void copy_from_page_locked(Stream& stream, DevicePointer device, const void* host, std::size_t bytes) = 0;
};

}  // namespace headroom
