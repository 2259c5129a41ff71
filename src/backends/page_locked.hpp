#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "backends/backend.hpp"

namespace headroom {

/// Memory of the host, page-locked: a device copies to and from it at the rate of the link, without another copy on the way.
class PageLockedMemory {
 public:
  virtual ~PageLockedMemory() = default;
  [[nodiscard]] virtual std::span<std::byte> bytes() const noexcept = 0;
};

/// What a backend is besides whose device has memory of its own.
class PageLockingBackend {
 public:
  virtual ~PageLockingBackend() = default;
  /// Throws Error where the host has none left.
  [[nodiscard]] virtual std::unique_ptr<PageLockedMemory> lock_pages(std::size_t bytes) = 0;
  /// From such memory, which must stay as it is until the copy is done.
  virtual void copy_from_page_locked(Stream& stream, DevicePointer device, const void* host, std::size_t bytes) = 0;
};

}  // namespace headroom
